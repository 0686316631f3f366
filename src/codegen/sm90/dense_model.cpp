// The Hopper GEMM's model of time: how a config covers a problem, and what that should take.
//
// A CTA works through its tiles, whole waves of them; with two widths, tiles of their mean width.
// In clocks, of one tile of rows x columns:
//
//   multiply   64 * rows * columns / 2048 a step of K of 64
//   producer       what a step moves in and out of shared memory, in its rows of 128 bytes:
//              rows + columns written; for each block of 64 rows, 64 + columns read
//   step       (multiply^6 + producer^6)^(1/6), plus what each step costs beside that, plus what it
//              moves from L2 (rows / cluster + columns / cluster); at least latency / stages. L2
//              delivers to all SMs meanwhile: its clocks a row and a column, times the lines of
//              L2 that 128 bytes of one touch, up to two where rows lie off their boundaries
//   main       K / 64 steps
//   epilogue   chunks of 64 x 64 times (a start + operations an element + full operands, which
//              cost little where they come through the stages)
//   ping-pong    tiles * max(main, (main + epilogue) / 2)     one hides under the other
//                + epilogue
//   cooperative  tiles * (main + epilogue / 2)                two warpgroups share each
//   split-K      tiles * (1.06 main / parts + epilogue / 2 + parts * exchange)
//   one-consumer start + tiles * (main / parts + epilogue + parts * sharing), and starting again
//
// Memory takes bytes / bandwidth beside it, where bytes are what is read and written and what other
// kernels left in L2 to be written. The two overlap, but not fully: time = (clocks^p +
// memory^p)^(1/p). The constants are the device's (model_constants.h). Where rows lie off 16-byte
// boundaries all of it takes longer, by what was measured on the device.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/ceil_div.h"
#include "codegen/sm90/dense.h"
#include "codegen/sm90/model_constants.h"

namespace epifuse::codegen::sm90 {
namespace {

constexpr int kStepDepth = 64;  // of K, which is counted in 16-bit elements

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

int clusters_at_once(int size, const targets::DeviceLimits& limits) {
  switch (size) {
    case 1: return limits.num_sms;
    case 2: return limits.clusters_of_2;
    case 3: return limits.clusters_of_3;
    case 4: return limits.clusters_of_4;
    default: return limits.clusters_of_8 * 8 / size;
  }
}

// Of a tile on average, of the CTA that has most: one wide tile more than its share. All tiles are
// wide where narrow ones would not add up to n.
double columns_of_busiest(const Config& config, const GemmSizes& sizes, std::int64_t columns,
                          double waves) {
  const std::int64_t excess = columns * result_columns(config) - sizes.n;
  const bool adds_up = sizes.n % kNarrower == 0 && excess <= kNarrower * columns;
  if (!config.two_widths || !adds_up) return result_columns(config);
  const double mean = static_cast<double>(sizes.n) / static_cast<double>(columns);
  return mean + (result_columns(config) - mean) / waves;
}

// Of two things at once that keep each other waiting less the larger `sharpness` is.
double overlapped(double one, double other, double sharpness) {
  return std::pow(std::pow(one, sharpness) + std::pow(other, sharpness), 1 / sharpness);
}

// Lines of L2 that 128 bytes of a row touch on average. Rows off 16 bytes do not come by TMA.
double lines_of_row(std::int64_t row_bytes) {
  constexpr std::int64_t kLine = 128, kBoundary = 16;
  const std::int64_t step = std::gcd(row_bytes, kLine);
  return step < kBoundary ? 1 : 2 - static_cast<double>(step) / kLine;
}

struct Lines {
  double a, b;
};

Lines lines_of(const plan::GemmDesc& gemm, const GemmSizes& sizes) {
  const auto lines = [&](const plan::Operand& operand, std::int64_t row_bytes,
                         std::int64_t along_mn) {
    const std::int64_t length = operand.major == plan::Major::k ? sizes.k : along_mn;
    const std::int64_t dense = length * static_cast<std::int64_t>(size_bytes(operand.dtype));
    return lines_of_row(row_bytes != 0 ? row_bytes : dense);
  };
  return {lines(gemm.a, sizes.row_bytes_a, sizes.m), lines(gemm.b, sizes.row_bytes_b, sizes.n)};
}

double main_clocks(const ModelConstants& c, const Config& config, double columns,
                   const Lines& lines, std::int64_t m, std::int64_t k) {
  const std::int64_t steps =
      ceil_div(ceil_div(std::max<std::int64_t>(k, 1), kStepDepth), config.split_k);
  const double multiply = config.tile_m * columns * kStepDepth / c.multiplies_per_clock;
  const double rows = 2 * config.tile_m + columns * (1 + config.tile_m / 64.0);
  const double producer = c.feed_clocks * rows;
  const double busy = overlapped(multiply, producer, c.feed_overlap);
  const auto rows_of_a = static_cast<double>(std::min<std::int64_t>(config.tile_m, m));
  const double rows_moved = rows_of_a / config.cluster_n,
               columns_moved = columns / config.cluster_m;
  const double move = c.row_clocks * (rows_moved + columns_moved);
  const double l2 =
      c.l2_row_clocks * lines.a * rows_moved + c.l2_column_clocks * lines.b * columns_moved;
  const double beside = is_one_consumer(config)
                            ? 0
                            : c.step_clocks + (config.cooperative ? c.cooperative_step_clocks : 0);
  const double gather = config.gathers ? c.gather_clocks * config.tile_m : 0;
  const double work = overlapped(busy + move + beside + gather, l2, c.l2_overlap);
  const double step = std::max({work, c.latency_clocks / config.stages, c.gather_floor * gather});
  const bool is_cluster = config.cluster_m * config.cluster_n > 1;
  const bool is_slowed = config.split_k > 1 && !is_one_consumer(config);
  return static_cast<double>(steps) * step * (is_slowed ? c.split_slows : 1) +
         (is_cluster ? c.cluster_clocks : 0);
}

double gate_slows(const ModelConstants& c, const plan::GemmDesc& gemm, const Config& config) {
  constexpr int kTall = 192, kWide = 192;
  const double few = is_short_of_stages(config) ? c.short_of_stages_slows : 1;
  if (gemm.gating == plan::Gating::none || gemm.b.major == plan::Major::k) return few;
  if (config.cooperative) return few * c.cooperative_gate_slows;
  if (config.tile_m == kTall) return few * c.tall_gate_slows;
  return few * (config.tile_n == kWide && has_adjacent_gates(gemm) ? c.wide_by_turns_slows : 1);
}

double epilogue_clocks(const ModelConstants& c, const Pressure& load, bool in_ring,
                       const Config& config, double columns) {
  constexpr double kChunk = 64 * 64;
  const double chunk = c.chunk_clocks + c.operation_clocks * load.cost +
                       (in_ring ? c.ring_load_clocks : c.load_clocks) * load.load_slots +
                       c.store_clocks * std::max(load.store_slots - 1, 0) +
                       c.reduction_clocks * load.reductions;
  double chunks = config.tile_m * columns / kChunk;
  if (is_one_consumer(config)) {  // a warp's chunks are dealt out to the CTAs, whole ones
    const int all = chunks_of_tile(config);
    chunks = static_cast<double>(ceil_div(all, config.split_k));
  } else if (config.split_k > 1) {
    chunks = std::max(chunks / config.split_k, config.tile_n > 64 ? 0.5 : 1.0);
  }
  const double narrow =
      config.two_widths ? c.narrow_clocks + c.narrow_load_clocks * load.load_slots : 0;
  return chunks * chunk / (config.cooperative ? 2 : 1) + narrow;
}

double memory_us(const ModelConstants& c, const Pressure& load, const Config& config,
                 const GemmSizes& sizes) {
  constexpr double kBytes = 2;  // of an element of K as it is counted, and of a slot's results
  constexpr int kSmallestTile = 64;
  const auto m = static_cast<double>(sizes.m), n = static_cast<double>(sizes.n);
  const auto k = static_cast<double>(sizes.k);
  const double full = load.load_slots + load.store_slots;
  const double bytes =
      static_cast<double>(sizes.batch) * kBytes * (m * k + n * config.products * k + m * n * full);
  const bool is_apart = config.tile_m == kSmallestTile && sizes.m > kSmallestTile;
  return (bytes + std::min(bytes, c.dirty_bytes)) / c.bytes_per_us *
         (is_apart ? 1 + c.read_again : 1);
}

// Of what takes `us` on aligned operands.
double on_rows_of(const Config& config, double us, const targets::DeviceProfile& device) {
  constexpr double kUnmeasured = 2.2;  // the least of what was
  if (!is_misaligned(config)) return us;
  if (device.known == nullptr) return kUnmeasured * us;
  const targets::Measurements& measured = *device.known->measured;
  const auto* const row = targets::find_misaligned(measured, config.rows_a, config.rows_b);
  return targets::slowed_down(us, row == nullptr ? kUnmeasured : row->fused, measured.rates);
}

}  // namespace

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

double expected_us(const plan::FusedGemm& unpaired, const Config& config, const GemmSizes& given,
                   const targets::DeviceProfile& device) {
  const targets::DeviceLimits& limits = device.limits;
  ModelConstants c = constants_of(device);
  const plan::FusedGemm step = as_compiled(unpaired, {});
  if (size_bytes(step.gemm.a.dtype) == 1) c.multiplies_per_clock /= c.eight_bit_slows;
  GemmSizes sizes = even_groups(given);
  sizes.k = depth_in_16_bits(step.gemm.a.dtype, sizes.k);
  const Tiling tiling = tile(config, sizes, limits);
  const int at_once = std::max(clusters_at_once(cluster_size(config), limits), 1);
  const auto waves = static_cast<double>(ceil_div(tiling.tiles, at_once));
  const double columns = columns_of_busiest(config, sizes, tiling.columns, waves);
  const Pressure load = pressure(step.epilogue);
  const Lines lines = lines_of(step.gemm, given);
  const double main = main_clocks(c, config, columns * config.products, lines, sizes.m, sizes.k) *
                      gate_slows(c, step.gemm, config);
  const double epilogue = epilogue_clocks(
      c, load, loads_in_ring(EpilogueLayout(step.epilogue), config, {}), config, columns);
  const bool is_cluster = config.cluster_m * config.cluster_n > 1;
  double clocks = c.fill_clocks + (is_cluster ? c.cluster_fill_clocks : 0);
  if (is_one_consumer(config)) {
    const double share = c.single_share_clocks * config.split_k;
    clocks +=
        c.single_clocks + waves * (main + epilogue + share) + (waves - 1) * c.single_restart_clocks;
  } else if (config.cooperative) {
    const double exchange = config.split_k > 1 ? c.exchange_clocks * config.split_k : 0;
    clocks += waves * (main + epilogue + exchange);
  } else {
    clocks += waves * std::max(main, (main + epilogue) / 2) + epilogue;
  }
  const double memory = memory_us(c, load, config, sizes);
  const double us = overlapped(clocks / c.clocks_per_us, memory, c.overlap) + c.launch_us +
                    (load.reductions > 0 ? c.finish_us : 0);
  return on_rows_of(config, us, device);
}

}  // namespace epifuse::codegen::sm90
