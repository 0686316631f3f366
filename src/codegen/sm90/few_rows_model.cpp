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

// Whether CTAs fill an SM.
bool fills(const Config& config, const Occupancy& of_sm) {
  constexpr int kThreads = 1024;
  return of_sm.ctas * config.warps * kWarpThreads >= kThreads;
}

// Along K, but not both operands in whole vectors.
bool moves_along_k(const Loads& loads) { return loads.is_k_major && !takes_vectors(loads); }

// By how much loads along N that are not of whole vectors in place hold each step up.
double loads_slow(const Loads& loads) {
  constexpr double kShifted = 1.3, kElements = 2;
  if (loads.of_a == LoadsOfA::elements) return kElements;
  return loads.of_a == LoadsOfA::shifted || loads.is_shifted ? kShifted : 1;
}

// Rows up to which the model holds.
std::int64_t most_rows(const Loads& loads) {
  constexpr std::int64_t kMostOfElements = 512;
  return loads.of_a == LoadsOfA::elements ? kMostOfElements : kMostRowsTaken;
}

// What the other terms do not tell, along K: CTAs that leave room on their SM, and 16 warps where
// those of 8 would be enough.
double correction(const Config& config, const Loads& loads, const Occupancy& of_sm,
                  std::int64_t ctas, std::int64_t num_sms) {
  constexpr double kUnfilled = 1.08, kManyWarps = 1.1;
  constexpr int kUsualWarps = 8;
  const double unfilled = takes_vectors(loads) && !fills(config, of_sm) ? kUnfilled : 1;
  return unfilled * (config.warps > kUsualWarps && ctas > num_sms ? kManyWarps : 1);
}

// A CTA's steps where A is moved: each waits for its own loads, however many a warp has under way.
double moved_steps_us(const ModelConstants& c, const Config& config, const Loads& loads,
                      double steps, double work) {
  // Fitted to 42 times of 25 products, an H100's.
  constexpr double kWait = 2, kBlockRows = 0.2, kWork = 0.3, kElements = 1.3;
  const double waits =
      kWait * c.few_rows_step_us * steps * (1 + kBlockRows * (config.tile_m / 8 - 1));
  return (waits + kWork * work) * (loads.of_a == LoadsOfA::elements ? kElements : 1);
}

// Until a CTA's sums are there, its waves one after another.
double steps_us(const ModelConstants& c, const Config& config, const Loads& loads, std::int64_t k,
                std::int64_t ctas, std::int64_t num_sms) {
  constexpr double kBlockRows = 0.28;    // of a step's work, each further block of 8 rows
  constexpr double kFurtherWave = 1.31;  // of the first one
  constexpr double kUsualWarps = 8;
  const int step_k = loads.is_k_major ? 64 : 32, at_once = std::max(config.stages, 1);
  const auto steps = static_cast<double>(
      ceil_div(k, static_cast<std::int64_t>(step_k * config.warps * config.split_k)));
  const int of_sm = std::max(occupancy(config, loads).ctas, 1);
  const auto waves = static_cast<double>(ceil_div(ctas, num_sms * of_sm));
  const auto beside = static_cast<double>(std::min<std::int64_t>(ceil_div(ctas, num_sms), of_sm));
  const double vector = loads.is_k_major ? c.few_rows_vector_us : c.few_rows_n_vector_us;
  const double work = steps * vectors_of_step(config, loads) * vector * beside *
                      (1 + kBlockRows * (config.tile_m / 8 - 1)) * config.warps / kUsualWarps;
  const double waits = c.few_rows_step_us * (1 + (steps - 1) / std::sqrt(at_once));
  const double of_steps = moves_along_k(loads) ? moved_steps_us(c, config, loads, steps, work)
                                               : (waits + work) * loads_slow(loads);
  const double first = of_steps + c.few_rows_wave_us;
  return first * (1 + kFurtherWave * (waves - 1));
}

}  // namespace

// One after the other: a start, the steps of K, memory's bytes and those that L2 delivers: B to
// each row of tiles, and A's rows behind the first 8 to each CTA.
double few_rows_us(const FusedGemm& step, const Config& config, const GemmSizes& sizes,
                   const targets::DeviceProfile& device) {
  constexpr int kElementBytes = 2;  // of bf16 and f16
  constexpr double kOfA = 0.7;      // of its bytes, which neighbours share
  constexpr double kTooMany = 10;   // so that the model does not choose it
  constexpr std::int64_t kBlock = 8;
  const ModelConstants c = constants_of(device);
  const auto m = static_cast<double>(sizes.m), n = static_cast<double>(sizes.n);
  const auto k = static_cast<double>(sizes.k), batch = static_cast<double>(sizes.batch);
  const std::int64_t row_tiles = ceil_div(sizes.m, config.tile_m), num_sms = device.limits.num_sms;
  const Loads loads = loads_of(step.gemm, config);
  const std::int64_t ctas =
      sizes.batch * row_tiles * column_tiles(config, loads, sizes.n) * config.split_k;
  const Pressure load = pressure(step.epilogue);
  const double full = load.load_slots + load.store_slots;
  const double of_b = batch * n * k * config.products * kElementBytes;
  const double bytes = of_b + batch * (m * k + m * n * full) * kElementBytes;
  const std::int64_t blocks = ceil_div(std::min<std::int64_t>(config.tile_m, sizes.m), kBlock);
  const double of_a =
      static_cast<double>(ctas / config.split_k * (blocks - 1) * kBlock) * k * kElementBytes;
  const double l2 = static_cast<double>(row_tiles) * of_b + kOfA * of_a;
  const double cta = c.few_rows_cta_us * (config.warps / 8.0 - 0.5) * static_cast<double>(ctas) /
                     static_cast<double>(num_sms);
  const double us = c.few_rows_launch_us + c.few_rows_cluster_us * std::sqrt(config.split_k - 1) +
                    steps_us(c, config, loads, sizes.k, ctas, num_sms) +
                    bytes / c.few_rows_bytes_per_us + l2 / c.few_rows_l2_bytes_per_us + cta +
                    c.few_rows_load_us * load.load_slots;
  if (sizes.m > most_rows(loads)) return kTooMany * us;
  return us * correction(config, loads, occupancy(config, loads), ctas, num_sms);
}

}  // namespace epifuse::codegen::sm90
