// The rows of the Hopper GEMM's constants, one a device.
#include "codegen/sm90/model_constants.h"

#include <algorithm>

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

using Field = ModelField<ModelConstants>;
constexpr Field kFields[] = {
    {"clocks_per_us", &ModelConstants::clocks_per_us, true},
    {"multiplies_per_clock", &ModelConstants::multiplies_per_clock},
    {"eight_bit_slows", &ModelConstants::eight_bit_slows, true},
    {"feed_clocks", &ModelConstants::feed_clocks},
    {"feed_overlap", &ModelConstants::feed_overlap},
    {"step_clocks", &ModelConstants::step_clocks, true},
    {"cooperative_step_clocks", &ModelConstants::cooperative_step_clocks, true},
    {"row_clocks", &ModelConstants::row_clocks, true},
    {"l2_row_clocks", &ModelConstants::l2_row_clocks, true},
    {"l2_column_clocks", &ModelConstants::l2_column_clocks, true},
    {"l2_overlap", &ModelConstants::l2_overlap, true},
    {"latency_clocks", &ModelConstants::latency_clocks, true},
    {"gather_clocks", &ModelConstants::gather_clocks},
    {"gather_floor", &ModelConstants::gather_floor},
    {"chunk_clocks", &ModelConstants::chunk_clocks, true},
    {"operation_clocks", &ModelConstants::operation_clocks, true},
    {"load_clocks", &ModelConstants::load_clocks, true},
    {"store_clocks", &ModelConstants::store_clocks},
    {"ring_load_clocks", &ModelConstants::ring_load_clocks, true},
    {"narrow_clocks", &ModelConstants::narrow_clocks},
    {"narrow_load_clocks", &ModelConstants::narrow_load_clocks},
    {"cluster_clocks", &ModelConstants::cluster_clocks, true},
    {"cluster_fill_clocks", &ModelConstants::cluster_fill_clocks},
    {"exchange_clocks", &ModelConstants::exchange_clocks, true},
    {"split_slows", &ModelConstants::split_slows, true},
    {"single_clocks", &ModelConstants::single_clocks, true},
    {"single_share_clocks", &ModelConstants::single_share_clocks, true},
    {"single_restart_clocks", &ModelConstants::single_restart_clocks},
    {"tall_gate_slows", &ModelConstants::tall_gate_slows},
    {"cooperative_gate_slows", &ModelConstants::cooperative_gate_slows},
    {"wide_by_turns_slows", &ModelConstants::wide_by_turns_slows},
    {"short_of_stages_slows", &ModelConstants::short_of_stages_slows},
    {"fill_clocks", &ModelConstants::fill_clocks, true},
    {"launch_us", &ModelConstants::launch_us, true},
    {"bytes_per_us", &ModelConstants::bytes_per_us, true},
    {"overlap", &ModelConstants::overlap},
    {"dirty_bytes", &ModelConstants::dirty_bytes},
    {"read_again", &ModelConstants::read_again},
    {"reduction_clocks", &ModelConstants::reduction_clocks},
    {"finish_us", &ModelConstants::finish_us},
    {"few_rows_launch_us", &ModelConstants::few_rows_launch_us, true},
    {"few_rows_wave_us", &ModelConstants::few_rows_wave_us},
    {"few_rows_cluster_us", &ModelConstants::few_rows_cluster_us},
    {"few_rows_latency_us", &ModelConstants::few_rows_latency_us, true},
    {"few_rows_l2_bytes_per_us", &ModelConstants::few_rows_l2_bytes_per_us, true},
    {"few_rows_slows", &ModelConstants::few_rows_slows},
};
static_assert(std::size(kFields) * sizeof(double) == sizeof(ModelConstants));

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
  if (device.known != nullptr) {
    replace<ModelConstants>(constants, kFields, kFamily, device.known->measured->constants);
  }
  return constants;
}

std::vector<NamedConstant> named_constants(const targets::DeviceProfile& device) {
  return named<ModelConstants>(constants_of(device), kFields);
}

}  // namespace epifuse::codegen::sm90
