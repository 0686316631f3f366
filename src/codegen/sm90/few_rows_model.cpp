// How long the kernel for few rows takes.
#include <algorithm>
#include <cmath>

#include "base/ceil_div.h"
#include "codegen/sm90/dense.h"
#include "codegen/sm90/few_rows.h"
#include "codegen/sm90/few_rows_loads.h"
#include "codegen/sm90/model_constants.h"

namespace epifuse::codegen::sm90 {
namespace {

using plan::FusedGemm;

constexpr int kUsualWarps = 8;

// Whether CTAs fill an SM.
bool fills(const Config& config, const Occupancy& of_sm) {
  constexpr int kThreads = 1024;
  return of_sm.ctas * config.warps * kWarpThreads >= kThreads;
}

// Along K, but not both operands in whole vectors.
bool moves_along_k(const Loads& loads) { return loads.is_k_major && !takes_vectors(loads); }

// What the other terms do not tell, along K: CTAs that leave room on their SM, but for those that
// leave it for steps ahead.
double correction(const Config& config, const Loads& loads) {
  constexpr double kUnfilled = 1.05;
  const bool leaves_room = config.ctas == 0 && !fills(config, occupancy(config, loads));
  return takes_vectors(loads) && leaves_room ? kUnfilled : 1;
}

// Blocks of 8 rows of a tile. Those behind the last row repeat what it loads.
double row_blocks(const Config& config, std::int64_t m) {
  constexpr std::int64_t kBlock = 8;
  constexpr double kRepeated = 0.5;
  const std::int64_t all = config.tile_m / kBlock;
  const std::int64_t there = std::min(ceil_div(m, kBlock), all);
  return static_cast<double>(there) + kRepeated * static_cast<double>(all - there);
}

// Of a start along N, where a larger tile has more code and addresses: beside 8 rows of 32 columns.
double start_us(const Config& config, const Loads& loads) {
  constexpr double kVectorUs = 0.12;
  constexpr int kVectors = 4;
  const int vectors = vectors_of_step(config, loads) * config.tile_m / 8;
  return loads.is_k_major ? 0 : kVectorUs * (vectors - kVectors);
}

// What a warp waits for: its own loads, step after step, and what it makes of them.
double waits_us(const ModelConstants& c, const Config& config, const Loads& loads,
                const GemmSizes& sizes) {
  constexpr double kOfDepth = 1.51;                    // steps loaded ahead
  constexpr double kMoved = 1.2, kMovedBlock = 0.771;  // and a further block of 8 rows
  constexpr double kBlock = 0.638;                     // of what is multiplied
  constexpr double kAlongN = 0.824, kShiftedAlongN = 2.01, kElements = 1.2;
  constexpr double kShiftedElements = 2.5;  // of A, to where vectors of B begin
  const int step_k = loads.is_k_major ? 64 : 32;
  const double blocks = row_blocks(config, sizes.m);
  const auto steps = static_cast<double>(
      ceil_div(sizes.k, static_cast<std::int64_t>(step_k * config.warps * config.split_k)));
  const double ahead = std::pow(std::max(config.stages, 1), kOfDepth);
  const double vector = loads.is_k_major ? c.few_rows_vector_us : c.few_rows_n_vector_us;
  const double of_loads = c.few_rows_step_us * (1 + (steps - 1) / ahead) *
                          (loads.is_k_major ? 1 : kAlongN) *
                          (moves_along_k(loads) ? kMoved * (1 + kMovedBlock * (blocks - 1)) : 1);
  const double work = steps * vector * vectors_of_step(config, loads) *
                      (1 + kBlock * (blocks - 1)) * config.warps / kUsualWarps;
  const double of_elements =
      loads.is_k_major && loads.is_shifted ? kElements * kShiftedElements : kElements;
  return (of_loads + work) * (loads.of_a == LoadsOfA::elements ? of_elements : 1) *
         (!loads.is_k_major && loads.is_shifted ? kShiftedAlongN : 1);
}

// A launch: its CTAs, how many of them the busiest SM has, and how many times one after another.
struct Ctas {
  std::int64_t all;
  double of_sm, waves;
};
Ctas ctas_of(const Config& config, const Loads& loads, const GemmSizes& sizes,
             const targets::DeviceLimits& limits) {
  Ctas out{};
  out.all = sizes.batch * ceil_div(sizes.m, config.tile_m) * column_tiles(config, loads, sizes.n) *
            config.split_k;
  out.of_sm = static_cast<double>(ceil_div(out.all, limits.num_sms));
  const int ctas = std::max(clusters_at_once(config.split_k, limits) * config.split_k, 1);
  const int at_once = ctas * std::max(occupancy(config, loads).ctas, 1);
  out.waves = static_cast<double>(ceil_div(out.all, at_once));
  return out;
}

// What a launch moves: from and to memory, from L2, which gives B to each row of tiles and A's rows
// behind the first 8 to each CTA, and into the busiest SM.
struct Traffic {
  double bytes, from_l2, into_sm;
};
Traffic traffic_of(const ModelConstants& c, const Config& config, const GemmSizes& sizes,
                   const Ctas& ctas, const Pressure& load, int bytes_of_b) {
  constexpr double kOfA = 0.7;  // of its bytes, which neighbours share
  constexpr double kRowsIntoSm = 0.799;
  constexpr std::int64_t kBlock = 8;
  const auto m = static_cast<double>(sizes.m), n = static_cast<double>(sizes.n);
  const auto k = static_cast<double>(sizes.k), batch = static_cast<double>(sizes.batch);
  const double full = load.load_slots + load.store_slots;
  const double of_b = batch * n * k * config.products * bytes_of_b;
  const std::int64_t blocks = ceil_div(std::min<std::int64_t>(config.tile_m, sizes.m), kBlock);
  const auto tiles = static_cast<double>(ctas.all / config.split_k);
  const double of_a = tiles * static_cast<double>((blocks - 1) * kBlock) * k * kElementBytes;
  const double into_sm = ctas.of_sm * k / config.split_k *
                         (bytes_of_b * config.tile_n * config.products +
                          kElementBytes * kRowsIntoSm * static_cast<double>(blocks * kBlock));
  const double bytes = of_b + batch * (m * k + m * n * full) * kElementBytes;
  return {bytes + std::min(bytes, c.few_rows_dirty_bytes),
          static_cast<double>(ceil_div(sizes.m, config.tile_m)) * of_b + kOfA * of_a, into_sm};
}

}  // namespace

// A start, and what takes longest of: the waits of each warp, what an SM takes in, memory's bytes
// and those that L2 delivers. Fitted to 640 times at 170 products, an H100's and an H200's.
double few_rows_us(const FusedGemm& step, const Config& config, const GemmSizes& sizes,
                   const targets::DeviceProfile& device) {
  constexpr double kTooMany = 10;  // so that the model does not choose it
  constexpr double kFurtherWave = 1.66, kFurtherClusters = 0.454;  // of the first one
  constexpr double kIntoSmPerUs = 70e3, kMovedIntoSm = 1.84, kSharpness = 4;
  const ModelConstants c = constants_of(device);
  const Loads loads = loads_of(step.gemm, config);
  const Ctas ctas = ctas_of(config, loads, sizes, device.limits);
  const Pressure load = pressure(step.epilogue);
  const auto bytes_of_b = static_cast<int>(size_bytes(step.gemm.b.dtype));
  const Traffic moved = traffic_of(c, config, sizes, ctas, load, bytes_of_b);
  const double further = ctas.waves - 1;
  const double working = overlapped(
      {waits_us(c, config, loads, sizes) * (1 + kFurtherWave * further),
       moved.into_sm / kIntoSmPerUs * (moves_along_k(loads) ? kMovedIntoSm : 1),
       moved.bytes / c.few_rows_bytes_per_us, moved.from_l2 / c.few_rows_l2_bytes_per_us},
      kSharpness);
  const double cluster =
      config.split_k > 1 ? c.few_rows_cluster_us * (1 + kFurtherClusters * further) : 0;
  const double warps = config.warps / static_cast<double>(kUsualWarps);
  const double started = c.few_rows_wave_us * ctas.waves + c.few_rows_cta_us * (warps - 0.5) *
                                                               static_cast<double>(ctas.all) /
                                                               device.limits.num_sms;
  const double us = c.few_rows_launch_us + start_us(config, loads) + cluster + started + working +
                    c.few_rows_load_us * load.load_slots;
  if (sizes.m > most_rows_taken(step.gemm)) return kTooMany * us;
  return us * correction(config, loads);
}

}  // namespace epifuse::codegen::sm90
