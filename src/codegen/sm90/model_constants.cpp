// The rows of the Hopper GEMM's constants, one a device.
#include "codegen/sm90/model_constants.h"

#include <algorithm>
#include <array>

#include "codegen/model_fields.h"

namespace epifuse::codegen::sm90 {
namespace {

// Fits to the times of all candidates over the grids (2026-11-22, `epifuse bench --sweep`;
// 2026-11-25, `epifuse calibrate --sweep bench/results/sweep_h200.json`). Of few points, 2026-11-23
// and 24: gather (14 configs at one), gates (2 to 32). Estimates: ring_load_clocks,
// reduction_clocks, finish_us. Those of few rows: so that at the points of `small` kernels stand to
// those of wgmma, as the model times them, as they did on an H100 (2026-11-25).
constexpr ModelConstants kH200{
    .clocks_per_us = 1590,
    .multiplies_per_clock = 2048 / 1.013,
    .eight_bit_slows = 1,  // by the instruction's rate, not measured
    .feed_clocks = 0.67,
    .feed_overlap = 6,
    .step_clocks = 27.9,
    .cooperative_step_clocks = 21.9,
    .row_clocks = 0.133,
    .l2_row_clocks = 1.8,
    .l2_column_clocks = 1.1,
    .l2_overlap = 4.31,
    .latency_clocks = 1470,
    .gather_clocks = 0.5,
    .gather_floor = 9.2,
    .chunk_clocks = 314,
    .operation_clocks = 76.4,
    .load_clocks = 503,
    .store_clocks = 50,
    .ring_load_clocks = 151,
    .narrow_clocks = 1200,
    .narrow_load_clocks = 576,
    .cluster_clocks = 1110,
    .cluster_fill_clocks = 300,
    .exchange_clocks = 2750,
    .split_slows = 1.1,
    .single_clocks = 2000,
    .single_share_clocks = 170,
    .single_restart_clocks = 3000,
    .tall_gate_slows = 1.055,
    .cooperative_gate_slows = 1.03,
    .wide_by_turns_slows = 1.02,
    .short_of_stages_slows = 1.01,
    .fill_clocks = 296,
    .launch_us = 4.35,
    .bytes_per_us = 4.25e6,
    .overlap = 5,
    .dirty_bytes = 50e6,
    .read_again = 0.1,
    .reduction_clocks = 120,
    .finish_us = 2.5,
    .few_rows_launch_us = 4.2,
    .few_rows_wave_us = 1.0,
    .few_rows_cluster_us = 2.4,
    .few_rows_latency_us = 0.8,
    .few_rows_l2_bytes_per_us = 1e7,
    .few_rows_slows = 0.96,
};

// Of an H100, whose L2 holds tiles of few columns up more (2026-11-25, of 111 points: the grids,
// random ones, rows off the lines of L2; `epifuse calibrate --sweep`).
constexpr ModelConstants kH100 = [] {
  ModelConstants out = kH200;
  out.clocks_per_us = 1820;
  out.step_clocks = 34.7;
  out.cooperative_step_clocks = 21.6;
  out.row_clocks = 0.157;
  out.l2_row_clocks = 2.34;
  out.l2_column_clocks = 1.31;
  out.l2_overlap = 3.01;
  out.chunk_clocks = 285;
  out.operation_clocks = 95.1;
  out.load_clocks = 350;
  out.cluster_clocks = 1580;
  out.exchange_clocks = 2600;
  out.split_slows = 1.09;
  out.single_clocks = 2610;
  out.single_share_clocks = 180;
  out.fill_clocks = 295;
  out.launch_us = 5.91;
  out.bytes_per_us = 3.47e6;
  out.few_rows_launch_us = 6.48;
  out.few_rows_latency_us = 0.756;
  out.few_rows_l2_bytes_per_us = 9.98e6;
  return out;
}();

struct Row {
  std::string_view device;
  const ModelConstants* constants;
};
constexpr Row kRows[] = {{"NVIDIA H200", &kH200}, {"NVIDIA H100 80GB HBM3", &kH100}};

// Clocks belong to the architecture's kernels, so the only fit stands for them. Rates are parts of
// what the driver says, as the fit's are of about 1980 MHz, 4.9 TB/s and an L2 of 60 MB.
ModelConstants generic(const targets::DriverRates& driver) {
  constexpr double kOfClock = 0.8, kOfMemory = 0.87, kOfL2 = 0.8;
  ModelConstants out = kH200;
  if (driver.clocks_per_us > 0) out.clocks_per_us = kOfClock * driver.clocks_per_us;
  if (driver.bytes_per_us > 0) out.bytes_per_us = kOfMemory * driver.bytes_per_us;
  if (driver.l2_bytes > 0) out.dirty_bytes = kOfL2 * driver.l2_bytes;
  return out;
}

constexpr std::string_view kFamily = "sm90_dense";  // of the row in families.def

// All of them, as those of `c`.
auto fields_of(ModelConstants& c) {
  const std::array fields{
      ModelField{"clocks_per_us", &c.clocks_per_us, true},
      ModelField{"multiplies_per_clock", &c.multiplies_per_clock},
      ModelField{"eight_bit_slows", &c.eight_bit_slows, true},
      ModelField{"feed_clocks", &c.feed_clocks},
      ModelField{"feed_overlap", &c.feed_overlap},
      ModelField{"step_clocks", &c.step_clocks, true},
      ModelField{"cooperative_step_clocks", &c.cooperative_step_clocks, true},
      ModelField{"row_clocks", &c.row_clocks, true},
      ModelField{"l2_row_clocks", &c.l2_row_clocks, true},
      ModelField{"l2_column_clocks", &c.l2_column_clocks, true},
      ModelField{"l2_overlap", &c.l2_overlap, true},
      ModelField{"latency_clocks", &c.latency_clocks, true},
      ModelField{"gather_clocks", &c.gather_clocks},
      ModelField{"gather_floor", &c.gather_floor},
      ModelField{"chunk_clocks", &c.chunk_clocks, true},
      ModelField{"operation_clocks", &c.operation_clocks, true},
      ModelField{"load_clocks", &c.load_clocks, true},
      ModelField{"store_clocks", &c.store_clocks},
      ModelField{"ring_load_clocks", &c.ring_load_clocks, true},
      ModelField{"narrow_clocks", &c.narrow_clocks},
      ModelField{"narrow_load_clocks", &c.narrow_load_clocks},
      ModelField{"cluster_clocks", &c.cluster_clocks, true},
      ModelField{"cluster_fill_clocks", &c.cluster_fill_clocks},
      ModelField{"exchange_clocks", &c.exchange_clocks, true},
      ModelField{"split_slows", &c.split_slows, true},
      ModelField{"single_clocks", &c.single_clocks, true},
      ModelField{"single_share_clocks", &c.single_share_clocks, true},
      ModelField{"single_restart_clocks", &c.single_restart_clocks},
      ModelField{"tall_gate_slows", &c.tall_gate_slows},
      ModelField{"cooperative_gate_slows", &c.cooperative_gate_slows},
      ModelField{"wide_by_turns_slows", &c.wide_by_turns_slows},
      ModelField{"short_of_stages_slows", &c.short_of_stages_slows},
      ModelField{"fill_clocks", &c.fill_clocks, true},
      ModelField{"launch_us", &c.launch_us, true},
      ModelField{"bytes_per_us", &c.bytes_per_us, true},
      ModelField{"overlap", &c.overlap},
      ModelField{"dirty_bytes", &c.dirty_bytes},
      ModelField{"read_again", &c.read_again},
      ModelField{"reduction_clocks", &c.reduction_clocks},
      ModelField{"finish_us", &c.finish_us},
      ModelField{"few_rows_launch_us", &c.few_rows_launch_us, true},
      ModelField{"few_rows_wave_us", &c.few_rows_wave_us},
      ModelField{"few_rows_cluster_us", &c.few_rows_cluster_us},
      ModelField{"few_rows_latency_us", &c.few_rows_latency_us, true},
      ModelField{"few_rows_l2_bytes_per_us", &c.few_rows_l2_bytes_per_us, true},
      ModelField{"few_rows_slows", &c.few_rows_slows},
  };
  static_assert(fields.size() * sizeof(double) == sizeof(ModelConstants));
  return fields;
}

ModelConstants usual_constants(const targets::DeviceProfile& device) {
  if (device.known != nullptr) {
    const auto* const row = std::ranges::find(kRows, device.known->measured->device, &Row::device);
    if (row != std::end(kRows)) return *row->constants;
  }
  return generic(device.driver);
}

}  // namespace

ModelConstants constants_of(const targets::DeviceProfile& device) {
  ModelConstants constants = usual_constants(device);
  const auto measured = measured_constants(device);
  if (!measured.empty()) replace(fields_of(constants), kFamily, measured);
  return constants;
}

std::vector<NamedConstant> named_constants(const targets::DeviceProfile& device) {
  ModelConstants constants = constants_of(device);
  return named(fields_of(constants));
}

}  // namespace epifuse::codegen::sm90
