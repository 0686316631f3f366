// The Hopper GEMM's model of time: how a config covers a problem, and what that should take.
//
// A CTA's time is the larger of what the tensor cores and the epilogue need, tile after tile:
//   main = rows * columns * K / 2048 multiplications a clock, over the schedule's efficiency
//   ping-pong    tiles * max(main, (main + epilogue) / 2) + epilogue    (one hides under the other)
//   cooperative  tiles * (main + epilogue)
// `tiles` are those of the CTA that has most: whole waves, or with two widths their fraction. The
// constants are fitted to a sweep of all candidates over the grid (bench/results; see below).
#include <algorithm>
#include <cmath>

#include "codegen/sm90_dense.h"

namespace epifuse::codegen::sm90_dense {
namespace {

constexpr double kMultipliesPerClock = 2048;  // of one SM, 16-bit operands
constexpr double kClocksPerUs = 1600;         // what the chip settles at under such load
constexpr int kTwoWidthsNarrower = 8;

std::int64_t round_up_div(std::int64_t x, std::int64_t y) { return (x + y - 1) / y; }

// Columns of tiles such that all tiles fill whole waves, as long as the narrow width allows.
std::int64_t columns_of_two_widths(const GemmConfig& config, const GemmSizes& sizes, int num_sms) {
  const std::int64_t rows = sizes.batch * round_up_div(sizes.m, config.tile_m);
  const std::int64_t fewest = round_up_div(sizes.n, config.tile_n);
  const std::int64_t most = sizes.n / (config.tile_n - kTwoWidthsNarrower);
  if (sizes.n % kTwoWidthsNarrower != 0) return fewest;
  std::int64_t best = fewest;
  double best_waves = 1e30;
  for (std::int64_t columns = fewest; columns <= most; ++columns) {
    // A wave of narrower tiles takes less: the time is that of the whole waves at the mean width.
    const double waves = static_cast<double>(round_up_div(rows * columns, num_sms)) *
                         static_cast<double>(sizes.n) / static_cast<double>(columns);
    if (waves >= best_waves) continue;
    best_waves = waves;
    best = columns;
  }
  return best;
}

int clusters_at_once(int size, const DeviceLimits& limits) {
  if (size == 1) return limits.num_sms;
  if (size == 2) return limits.clusters_of_2;
  return size <= 4 ? limits.clusters_of_4 * 4 / size : limits.clusters_of_8 * 8 / size;
}

// How much of the tensor cores' rate a schedule reaches: smaller tiles move more bytes per flop,
// through shared memory and at the power limit.
double efficiency(const GemmConfig& config) {
  const double area = static_cast<double>(config.tile_m) * config.tile_n;
  const double perimeter = config.tile_m / static_cast<double>(config.cluster_n) +
                           config.tile_n / static_cast<double>(config.cluster_m);
  return 0.97 / (1 + 3.5 * perimeter / area);
}

}  // namespace

Tiling tile(const GemmConfig& config, const GemmSizes& sizes, const DeviceLimits& limits) {
  constexpr std::int64_t kRaster = 8, kRasterOfTwoWidths = 16;
  Tiling out;
  out.columns = config.two_widths ? columns_of_two_widths(config, sizes, limits.num_sms)
                                  : round_up_div(sizes.n, config.tile_n * config.cluster_n);
  out.tiles = sizes.batch * round_up_div(sizes.m, config.tile_m * config.cluster_m) * out.columns;
  const int size = cluster_size(config);
  const std::int64_t clusters =
      config.split_k > 1 ? out.tiles
                         : std::min<std::int64_t>(out.tiles, clusters_at_once(size, limits));
  out.num_ctas = clusters * size;
  out.raster =
      static_cast<int>((config.two_widths ? kRasterOfTwoWidths : kRaster) / config.cluster_m);
  return out;
}

double expected_us(const plan::FusedGemm& step, const GemmConfig& config, const GemmSizes& sizes,
                   const DeviceLimits& limits) {
  const Tiling tiling = tile(config, sizes, limits);
  const double columns = config.two_widths
                             ? static_cast<double>(sizes.n) / static_cast<double>(tiling.columns)
                             : config.tile_n;
  const double area = config.tile_m * columns;
  const double k = static_cast<double>(std::max<std::int64_t>(sizes.k, 1)) / config.split_k;
  const double main = area * k / kMultipliesPerClock / efficiency(config);
  const Pressure load = pressure(step.epilogue);
  const double chunk_clocks = 350 + 24.0 * load.cost + 120.0 * (load.load_slots + load.store_slots);
  const double epilogue = area / (64 * 64) * chunk_clocks / (config.cooperative ? 2 : 1);
  const int at_once = clusters_at_once(cluster_size(config), limits);
  const auto waves = static_cast<double>(round_up_div(tiling.tiles, at_once));
  const double fill = 1500 + (config.split_k > 1 ? 2500 : 0);
  double clocks;
  if (config.cooperative) {
    clocks = waves * (main + epilogue / config.split_k);
  } else {
    clocks = waves * std::max(main, (main + epilogue) / 2) + epilogue;
  }
  return (clocks + fill) / kClocksPerUs;
}

}  // namespace epifuse::codegen::sm90_dense
