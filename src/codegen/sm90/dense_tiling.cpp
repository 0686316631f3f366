// How the Hopper GEMM covers a problem with tiles.
#include <algorithm>
#include <cmath>

#include "base/ceil_div.h"
#include "codegen/sm90/dense.h"

namespace epifuse::codegen::sm90 {
namespace {

// Columns of tiles such that all tiles fill whole waves, as long as the narrow width allows.
std::int64_t columns_of_two_widths(const Config& config, const GemmSizes& sizes, int at_once) {
  const std::int64_t rows = sizes.batch * ceil_div(sizes.m, config.tile_m * config.cluster_m);
  const std::int64_t fewest = ceil_div(sizes.n, result_columns(config));
  if (sizes.n % kNarrower != 0) return fewest;
  const std::int64_t most = sizes.n / (result_columns(config) - kNarrower);
  std::int64_t best = fewest;
  double best_waves = 0;
  for (std::int64_t columns = fewest; columns <= most; ++columns) {
    // A wave of narrower tiles takes less: the time is that of the whole waves at the mean width.
    const double waves =
        static_cast<double>(ceil_div(rows * columns, at_once)) / static_cast<double>(columns);
    if (columns > fewest && waves >= best_waves) continue;
    best_waves = waves;
    best = columns;
  }
  return best;
}

// Rows of tiles of a group on average, where groups end anywhere: a group has more than r rows with
// the probability q^(r + 1), so its tiles are the sum of q^(i * rows_of_tile + 1).
double tiles_of_group(double rows, double rows_of_tile) {
  const double q = rows / (rows + 1);
  return q / (1 - std::pow(q, rows_of_tile));
}

}  // namespace

int clusters_at_once(int size, const targets::DeviceLimits& limits) {
  switch (size) {
    case 1: return limits.num_sms;
    case 2: return limits.clusters_of_2;
    case 3: return limits.clusters_of_3;
    case 4: return limits.clusters_of_4;
    default: return limits.clusters_of_8 * 8 / size;
  }
}

Tiling tile(const Config& config, const GemmSizes& sizes, const targets::DeviceLimits& limits) {
  constexpr int kBandRows = 2048;  // a wave is about as wide as it is high (docs/gotchas-hopper.md)
  const int size = cluster_size(config);
  const int at_once = clusters_at_once(size, limits);
  Tiling out;
  out.columns = config.two_widths ? columns_of_two_widths(config, sizes, at_once)
                                  : ceil_div(sizes.n, result_columns(config) * config.cluster_n);
  const std::int64_t rows = config.tile_m * config.cluster_m;
  // At most: the last tile of every group may be a partial one.
  const std::int64_t rows_of_tiles =
      sizes.groups > 0 ? sizes.m / rows + std::min(sizes.groups, sizes.m) : ceil_div(sizes.m, rows);
  out.tiles = sizes.batch * rows_of_tiles * out.columns;
  const std::int64_t clusters =
      config.split_k > 1 ? out.tiles : std::min<std::int64_t>(out.tiles, at_once);
  out.num_ctas = clusters * size;
  out.is_one_wave = out.tiles <= at_once;
  out.raster = std::max(kBandRows / (config.tile_m * config.cluster_m), 1);
  return out;
}

int least_rows_of_tile(const Config& config, const GemmSizes& sizes) {
  constexpr std::int64_t kSmall = 1024;  // rows of a group on average (docs/gotchas-groups.md)
  const bool are_small = sizes.m < kSmall * sizes.groups;
  return has_short_tiles(config) && !are_small ? kBlockRows + 1 : 1;
}

Tiling expected_tiling(const Config& config, const GemmSizes& sizes,
                       const targets::DeviceLimits& limits) {
  constexpr double kOfShort = 0.5;  // of a tile's time, and of the groups that end in one
  const GemmSizes even = even_groups(sizes);
  Tiling out = tile(config, even, limits);
  if (sizes.groups == 0) return out;
  const double rows = config.tile_m * config.cluster_m;
  double of_group =
      tiles_of_group(static_cast<double>(sizes.m) / static_cast<double>(even.batch), rows);
  if (least_rows_of_tile(config, sizes) > 1) of_group -= kOfShort * kBlockRows / rows;
  out.tiles = std::llround(static_cast<double>(even.batch * out.columns) * of_group);
  return out;
}

}  // namespace epifuse::codegen::sm90
