#include "codegen/sm90/dense_memory.h"

#include <algorithm>
#include <numeric>

#include "base/ceil_div.h"

namespace epifuse::codegen::sm90 {
namespace {

// Bytes of operands that cooperative CTAs out of step read again.
double bytes_read_again(const ModelConstants& c, const Config& config, const GemmSizes& sizes,
                        const Tiling& tiling, double drift, double at_once, double columns) {
  if (!config.cooperative || config.split_k > 1) return 0;
  constexpr double kBytes = 2;
  const auto m = static_cast<double>(sizes.m), k = static_cast<double>(sizes.k);
  const double rows = config.tile_m * config.cluster_m, wide = columns * config.cluster_n;
  const double band = std::min(rows * tiling.raster, m);
  const double across = at_once / std::max(band / rows, 1.0) * wide;
  const double of_wave =
      kBytes * k * (band + std::min(across, static_cast<double>(sizes.n) * config.products));
  const double missed = std::max(0.0, 1 - c.l2_bytes / std::max(of_wave, 1.0));
  const double of_all = static_cast<double>(tiling.tiles) * kBytes * k * (rows + wide);
  return c.drift * missed * drift * of_all;
}

// Rows of results in memory, and what a tile has of one.
struct ResultRows {
  std::int64_t columns;
  int of_tile;
};
ResultRows result_rows(const Config& config, const GemmSizes& sizes) {
  if (config.swapped) return {sizes.m, config.tile_m};
  return {sizes.n, result_columns(config)};
}

// What rows of a tile's results touch beside whole lines of memory, as a part of the results: where
// they begin or end within a line, another tile has the rest of it.
double lines_cut(const Config& config, const GemmSizes& sizes) {
  constexpr std::int64_t kLine = 128, kBoundary = 16, kBytes = 2;
  const auto [columns, columns_of_tile] = result_rows(config, sizes);
  const std::int64_t of_tile = columns_of_tile * kBytes;
  const std::int64_t begins = std::gcd(std::gcd(of_tile, columns * kBytes), kLine);
  if (begins < kBoundary) return 0;  // threads write them
  return static_cast<double>(kLine - begins) / static_cast<double>(of_tile);
}

// What memory moves for sectors of 32 bytes that are written in part, as a part of the results: it
// reads each of them first. TMA writes 64 columns at a time, threads what a tile has of a row.
double sectors_cut(const Config& config, const GemmSizes& sizes) {
  constexpr std::int64_t kSector = 32, kBoundary = 16, kBytes = 2;
  constexpr double kOfPart = 90, kEnds = 2;  // bytes
  const auto [length, of_tile] = result_rows(config, sizes);
  const std::int64_t begins = std::gcd(length * kBytes, kSector);
  if (begins == kSector) return 0;
  const double part_of_rows = 1 - static_cast<double>(begins) / kSector;
  const bool is_whole = begins < kBoundary && config.whole_sectors;
  const int columns = is_whole ? of_tile : kChunkColumns;
  const auto across = static_cast<double>(ceil_div(length, std::int64_t{columns}));
  return part_of_rows * across * kEnds * kOfPart / static_cast<double>(length * kBytes);
}

// Of B, what CTAs of other rows of tiles read again, as they are far apart.
double bytes_of_rows_apart(const ModelConstants& c, const Config& config, const GemmSizes& sizes) {
  constexpr std::int64_t kBytes = 2, kMost = 7;
  if (!is_one_consumer(config) || config.tile_m != kBlockRows) return 0;
  const auto further = std::clamp<std::int64_t>(ceil_div(sizes.m, kBlockRows) - 1, 0, kMost);
  return c.read_again * static_cast<double>(further * kBytes * sizes.batch * sizes.n * sizes.k);
}

}  // namespace

double memory_us(const ModelConstants& c, const Pressure& load, const Config& config,
                 const GemmSizes& sizes, const Tiling& tiling, double drift, double at_once,
                 double columns) {
  constexpr double kBytes = 2;  // of an element of K as it is counted, and of a slot's results
  const auto m = static_cast<double>(sizes.m), n = static_cast<double>(sizes.n);
  const auto k = static_cast<double>(sizes.k);
  const auto batch = static_cast<double>(sizes.batch);
  const double slots = load.load_slots + load.store_slots;
  // As long as L2 holds both parts of a cut line, memory gets it once.
  const double beyond_l2 = std::min(batch * kBytes * m * n * slots / c.l2_bytes, 1.0);
  const double full = slots * (1 + c.cut_lines * beyond_l2 * lines_cut(config, sizes)) +
                      load.store_slots * beyond_l2 * sectors_cut(config, sizes);
  const double of_b = n * config.products * k * (config.widens_b ? 0.5 : 1);
  const double bytes = batch * kBytes * (m * k + of_b + m * n * full);
  // What several rows of tiles read comes slower, as if a part of it were moved twice.
  const double written_back = sizes.m <= config.tile_m ? std::min(bytes, c.dirty_bytes)
                                                       : c.dirty_part * std::min(bytes, c.l2_bytes);
  const double again = bytes_read_again(c, config, sizes, tiling, drift, at_once, columns) +
                       bytes_of_rows_apart(c, config, sizes);
  return (bytes + written_back + again) / c.bytes_per_us;
}

double groups_apart_us(const ModelConstants& c, const Config& config, const GemmSizes& sizes,
                       const Tiling& tiling, double lines_of_b) {
  constexpr double kAgain = 0.4, kBytes = 2;
  if (!config.grouped || lines_of_b <= 1) return 0;
  const double weights =
      kBytes * config.products * static_cast<double>(sizes.batch * sizes.n * sizes.k);
  const double missed = std::max(0.0, 1 - c.l2_bytes / std::max(weights, 1.0));
  const double further =
      static_cast<double>(tiling.tiles) / static_cast<double>(sizes.batch * tiling.columns) - 1;
  return kAgain * missed * std::max(further, 0.0) * weights / c.bytes_per_us;
}

}  // namespace epifuse::codegen::sm90
