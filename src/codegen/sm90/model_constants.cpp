// The rows of the Hopper GEMM's constants, one a device.
#include "codegen/sm90/model_constants.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "codegen/model_fields.h"

namespace epifuse::codegen::sm90 {
namespace {

// Fits to the times of all candidates (`epifuse bench --sweep` of dense, small, bare, gated and
// random; 2026-11-26), an H200's and an H100's together: what is of clocks is the kernels'. Of few
// points, 2026-11-23 and 24: gather (14 configs at one), gates (2 to 32). Estimates:
// ring_load_clocks, reduction_clocks, finish_us; eight_bit_slows by the instruction's rate. An
// H200's few_rows_bytes_per_us is of untuned rows of `small` in bench/results.
constexpr ModelConstants kH200{
    .clocks_per_us = 1800,
    .multiplies_per_clock = 2048 / 1.013,
    .eight_bit_slows = 1,
    .feed_clocks = 0.7,
    .feed_overlap = 6,
    .step_clocks = 69.1,
    .cooperative_step_clocks = 26.3,
    .least_step_clocks = 188,
    .row_clocks = 0.116,
    .l2_row_clocks = 2.08,
    .l2_column_clocks = 1.29,
    .l2_overlap = 4.28,
    .l2_idle = 0.861,
    .latency_clocks = 1470,
    .outside_clocks = 9.2,
    .gather_clocks = 0.5,
    .gather_floor = 9.2,
    .mover_clocks = 700,
    .second_mover_clocks = 40,
    .mover_row_clocks = 5.8,
    .tile_clocks = 691,
    .chunk_clocks = 128,
    .operation_clocks = 68.8,
    .load_clocks = 325,
    .store_clocks = 49.9,
    .ring_load_clocks = 143,
    .lane_wait_clocks = 641,
    .lane_load_clocks = 18.3,
    .lane_store_clocks = 7.67,
    .narrow_clocks = 1.04e+03,
    .narrow_load_clocks = 554,
    .cluster_clocks = 644,
    .cluster_fill_clocks = 70.9,
    .exchange_clocks = 3260,
    .exchange_chunk_clocks = 667,
    .split_slows = 1.12,
    .single_clocks = 2000,
    .single_share_clocks = 430,
    .single_restart_clocks = 7150,
    .tall_gate_slows = 1.055,
    .cooperative_gate_slows = 1.03,
    .wide_by_turns_slows = 1.02,
    .short_of_stages_slows = 1.01,
    .tall_cluster_slows = 0.108,
    .fill_clocks = 311,
    .launch_us = 5.74,
    .bytes_per_us = 3.3e6,
    .overlap = 3.13,
    .dirty_bytes = 3.28e6,
    .dirty_part = 0.36,
    .read_again = 0.153,
    .cut_lines = 0.3,
    .l2_bytes = 50e6,
    .drift = 0.484,
    .drift_waves = 7.75,
    .reduction_clocks = 120,
    .finish_us = 2.5,
    .few_rows_launch_us = 5.42,
    .few_rows_wave_us = 0.318,
    .few_rows_cluster_us = 1.52,
    .few_rows_cta_us = 0.28,
    .few_rows_load_us = 0.966,
    .few_rows_step_us = 0.5,
    .few_rows_vector_us = 0.00032,
    .few_rows_n_vector_us = 0.0585,
    .few_rows_bytes_per_us = 4.2e6,
    .few_rows_l2_bytes_per_us = 5.22e6,
    .few_rows_dirty_bytes = 5.5e6,
};

// An H100's memory and L2 deliver less.
constexpr ModelConstants kH100 = [] {
  ModelConstants out = kH200;
  out.clocks_per_us = 1820;
  out.l2_row_clocks = 2.89;
  out.l2_column_clocks = 1.48;
  out.launch_us = 5.88;
  out.bytes_per_us = 2.6e6;
  out.few_rows_launch_us = 5.17;
  out.few_rows_bytes_per_us = 2.85e6;
  return out;
}();

struct Row {
  std::string_view device;
  const ModelConstants* constants;
};
constexpr Row kRows[] = {{"NVIDIA H200", &kH200}, {"NVIDIA H100 80GB HBM3", &kH100}};

// Clocks belong to the architecture's kernels, so the only fit stands for them. Rates are parts of
// what the driver says: between an H200's, of about 1980 MHz, 4.9 TB/s and an L2 of 60 MB, and an
// H100's.
ModelConstants generic(const targets::DriverRates& driver) {
  constexpr double kOfClock = 0.9, kOfMemory = 0.72, kOfMemoryByFewRows = 0.86, kOfL2 = 0.8;
  ModelConstants out = kH200;
  out.few_rows_l2_bytes_per_us = 10e6;
  if (driver.clocks_per_us > 0) out.clocks_per_us = kOfClock * driver.clocks_per_us;
  if (driver.bytes_per_us > 0) {
    out.bytes_per_us = kOfMemory * driver.bytes_per_us;
    out.few_rows_bytes_per_us = kOfMemoryByFewRows * driver.bytes_per_us;
  }
  if (driver.l2_bytes > 0) out.l2_bytes = kOfL2 * driver.l2_bytes;
  return out;
}

constexpr std::string_view kFamily = "sm90_dense";  // of the row in families.def

// Those of `c`: of kernels by wgmma, and for few rows.
auto tile_fields_of(ModelConstants& c) {
  return std::array{
      ModelField{"clocks_per_us", &c.clocks_per_us, true},
      ModelField{"multiplies_per_clock", &c.multiplies_per_clock},
      ModelField{"eight_bit_slows", &c.eight_bit_slows, true},
      ModelField{"feed_clocks", &c.feed_clocks},
      ModelField{"feed_overlap", &c.feed_overlap},
      ModelField{"step_clocks", &c.step_clocks, true},
      ModelField{"cooperative_step_clocks", &c.cooperative_step_clocks, true},
      ModelField{"least_step_clocks", &c.least_step_clocks},
      ModelField{"row_clocks", &c.row_clocks, true},
      ModelField{"l2_row_clocks", &c.l2_row_clocks, true},
      ModelField{"l2_column_clocks", &c.l2_column_clocks, true},
      ModelField{"l2_overlap", &c.l2_overlap, true},
      ModelField{"l2_idle", &c.l2_idle, true},
      ModelField{"latency_clocks", &c.latency_clocks, true},
      ModelField{"outside_clocks", &c.outside_clocks},
      ModelField{"gather_clocks", &c.gather_clocks},
      ModelField{"gather_floor", &c.gather_floor},
      ModelField{"mover_clocks", &c.mover_clocks, true},
      ModelField{"second_mover_clocks", &c.second_mover_clocks},
      ModelField{"mover_row_clocks", &c.mover_row_clocks, true},
      ModelField{"tile_clocks", &c.tile_clocks, true},
      ModelField{"chunk_clocks", &c.chunk_clocks, true},
      ModelField{"operation_clocks", &c.operation_clocks, true},
      ModelField{"load_clocks", &c.load_clocks, true},
      ModelField{"store_clocks", &c.store_clocks},
      ModelField{"ring_load_clocks", &c.ring_load_clocks, true},
      ModelField{"lane_wait_clocks", &c.lane_wait_clocks},
      ModelField{"lane_load_clocks", &c.lane_load_clocks, true},
      ModelField{"lane_store_clocks", &c.lane_store_clocks, true},
      ModelField{"narrow_clocks", &c.narrow_clocks},
      ModelField{"narrow_load_clocks", &c.narrow_load_clocks},
      ModelField{"cluster_clocks", &c.cluster_clocks, true},
      ModelField{"cluster_fill_clocks", &c.cluster_fill_clocks},
      ModelField{"exchange_clocks", &c.exchange_clocks, true},
      ModelField{"exchange_chunk_clocks", &c.exchange_chunk_clocks},
      ModelField{"split_slows", &c.split_slows, true},
      ModelField{"single_clocks", &c.single_clocks, true},
      ModelField{"single_share_clocks", &c.single_share_clocks, true},
      ModelField{"single_restart_clocks", &c.single_restart_clocks},
      ModelField{"tall_gate_slows", &c.tall_gate_slows},
      ModelField{"cooperative_gate_slows", &c.cooperative_gate_slows},
      ModelField{"wide_by_turns_slows", &c.wide_by_turns_slows},
      ModelField{"short_of_stages_slows", &c.short_of_stages_slows},
      ModelField{"tall_cluster_slows", &c.tall_cluster_slows},
      ModelField{"fill_clocks", &c.fill_clocks, true},
      ModelField{"launch_us", &c.launch_us, true},
      ModelField{"bytes_per_us", &c.bytes_per_us, true},
      ModelField{"overlap", &c.overlap},
      ModelField{"dirty_bytes", &c.dirty_bytes},
      ModelField{"dirty_part", &c.dirty_part},
      ModelField{"read_again", &c.read_again},
      ModelField{"cut_lines", &c.cut_lines},
      ModelField{"l2_bytes", &c.l2_bytes},
      ModelField{"drift", &c.drift, true},
      ModelField{"drift_waves", &c.drift_waves},
      ModelField{"reduction_clocks", &c.reduction_clocks},
      ModelField{"finish_us", &c.finish_us},
  };
}
auto few_rows_fields_of(ModelConstants& c) {
  return std::array{
      ModelField{"few_rows_launch_us", &c.few_rows_launch_us, true},
      ModelField{"few_rows_wave_us", &c.few_rows_wave_us},
      ModelField{"few_rows_cluster_us", &c.few_rows_cluster_us},
      ModelField{"few_rows_cta_us", &c.few_rows_cta_us},
      ModelField{"few_rows_load_us", &c.few_rows_load_us},
      ModelField{"few_rows_step_us", &c.few_rows_step_us, true},
      ModelField{"few_rows_vector_us", &c.few_rows_vector_us},
      ModelField{"few_rows_n_vector_us", &c.few_rows_n_vector_us},
      ModelField{"few_rows_bytes_per_us", &c.few_rows_bytes_per_us, true},
      ModelField{"few_rows_l2_bytes_per_us", &c.few_rows_l2_bytes_per_us, true},
      ModelField{"few_rows_dirty_bytes", &c.few_rows_dirty_bytes},
  };
}
std::vector<ModelField> fields_of(ModelConstants& c) {
  const auto tile = tile_fields_of(c);
  const auto few_rows = few_rows_fields_of(c);
  static_assert((tile.size() + few_rows.size()) * sizeof(double) == sizeof(ModelConstants));
  std::vector<ModelField> out(tile.begin(), tile.end());
  out.insert(out.end(), few_rows.begin(), few_rows.end());
  return out;
}

ModelConstants usual_constants(const targets::DeviceProfile& device) {
  if (device.known != nullptr) {
    const auto* const row = std::ranges::find(kRows, device.known->measured->device, &Row::device);
    if (row != std::end(kRows)) return *row->constants;
  }
  return generic(device.driver);
}

}  // namespace

double overlapped(std::initializer_list<double> all, double sharpness) {
  double sum = 0;
  for (const double each : all) sum += std::pow(each, sharpness);
  return std::pow(sum, 1 / sharpness);
}

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
