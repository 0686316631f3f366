// The rows of the Hopper GEMM's constants, one a device.
#include "codegen/sm90/model_constants.h"

#include <algorithm>

namespace epifuse::codegen::sm90 {
namespace {

// A least-squares fit to the times of all candidates over the grids (2026-11-22; `epifuse bench
// --sweep`), then moved to where the choice loses least. Of few points, 2026-11-23 and 24: gather
// (14 configs at one), gates (2 to 32). Estimates: ring_load_clocks,
// reduction_clocks, finish_us and those of few rows.
constexpr ModelConstants kH200{
    .clocks_per_us = 1600,
    .multiplies_per_clock = 2048 / 1.013,
    .feed_clocks = 0.67,
    .feed_overlap = 6,
    .step_clocks = 32,
    .cooperative_step_clocks = 22,
    .row_clocks = 0.143,
    .latency_clocks = 1470,
    .gather_clocks = 0.5,
    .gather_floor = 9.2,
    .chunk_clocks = 532,
    .operation_clocks = 87,
    .load_clocks = 581,
    .store_clocks = 50,
    .ring_load_clocks = 150,
    .narrow_clocks = 1200,
    .narrow_load_clocks = 576,
    .cluster_clocks = 2900,
    .cluster_fill_clocks = 300,
    .exchange_clocks = 2300,
    .split_slows = 1.06,
    .single_clocks = 2000,
    .single_share_clocks = 170,
    .single_restart_clocks = 3000,
    .tall_gate_slows = 1.055,
    .cooperative_gate_slows = 1.03,
    .wide_by_turns_slows = 1.02,
    .short_of_stages_slows = 1.01,
    .fill_clocks = 300,
    .launch_us = 4.2,
    .bytes_per_us = 4.6e6,
    .overlap = 5,
    .dirty_bytes = 50e6,
    .read_again = 0.1,
    .reduction_clocks = 120,
    .finish_us = 2.5,
    .few_rows_launch_us = 2.6,
    .few_rows_cluster_us = 0.5,
    .few_rows_latency_us = 1.0,
    .few_rows_l2_bytes_per_us = 7e6,
};

struct Row {
  std::string_view device;
  const ModelConstants* constants;
};
constexpr Row kRows[] = {{"NVIDIA H200", &kH200}};

// Clocks belong to the architecture's kernels, so the only fit stands for them. Rates are parts of
// what the driver says, as the fit's are of about 1980 MHz, 4.9 TB/s and an L2 of 60 MB.
ModelConstants generic(const targets::DriverRates& driver) {
  constexpr double kOfClock = 0.81, kOfMemory = 0.94, kOfL2 = 0.8;
  ModelConstants out = kH200;
  if (driver.clocks_per_us > 0) out.clocks_per_us = kOfClock * driver.clocks_per_us;
  if (driver.bytes_per_us > 0) out.bytes_per_us = kOfMemory * driver.bytes_per_us;
  if (driver.l2_bytes > 0) out.dirty_bytes = kOfL2 * driver.l2_bytes;
  return out;
}

}  // namespace

ModelConstants constants_of(const targets::DeviceProfile& device) {
  if (device.known != nullptr) {
    const auto* const row = std::ranges::find(kRows, device.known->measured->device, &Row::device);
    if (row != std::end(kRows)) return *row->constants;
  }
  return generic(device.driver);
}

}  // namespace epifuse::codegen::sm90
