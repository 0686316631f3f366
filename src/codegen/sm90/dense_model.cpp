// The Hopper GEMM's model of time: how a config covers a problem, and what that should take.
//
// A CTA works through its tiles, whole waves of them; with two widths, tiles of their mean width.
// In clocks, of one tile of rows x columns:
//
//   multiply   64 * rows * columns / 2048 a step of K of 64
//   producer       what a step moves in and out of shared memory, in its rows of 128 bytes:
//              rows + columns written; for each block of 64 rows, 64 + columns read
//   step       (multiply^6 + producer^6)^(1/6), plus what each step costs beside that, plus what it
//              moves from L2 (rows / cluster + columns / cluster), the less the fewer SMs are busy;
//              at least latency / stages, and what any step takes. L2
//              delivers to all SMs meanwhile, sooner where some have no tile: its clocks a row and
//              a column, times the lines of L2 that 128 bytes of one touch, up to two where rows
//              lie off their boundaries. Rows off 16-byte boundaries are moved by threads, and
//              columns that are not there filled, beside the rest as (rest^2.2 + moved^2.2)^(1/2.2)
//   main       K / 64 steps
//   epilogue   a start, and chunks of 64 x 64 times (a start + operations an element + full
//              operands, which cost little where they come through the stages; what TMA cannot
//              address is moved by threads)
//   ping-pong    tiles * main + epilogue                      one hides under the other, or
//                turns of both consumers, each of which does main + epilogue after the other
//   cooperative  tiles * (main + epilogue / 2)                its warpgroups share each
//   split-K      tiles * (1.06 main / parts + epilogue / 2 + exchange: of each chunk that a CTA
//                adds up, with each of the other parts)
//   one-consumer start + tiles * (main / parts + epilogue + parts * sharing), and starting again
//
// Memory takes bytes / bandwidth beside all but the last epilogue, where bytes are what is read and
// written, of lines of results that tiles cut a part more where L2 does not hold them, what other
// kernels left in L2 to be written, and what is read again: cooperative CTAs get out of step from
// wave to wave, and L2 may not hold what a wave reads. The two overlap, but not fully:
// time = (clocks^p + memory^p)^(1/p).
// The constants are the device's (model_constants.h).
#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/ceil_div.h"
#include "codegen/sm90/dense.h"
#include "codegen/sm90/dense_memory.h"
#include "codegen/sm90/model_constants.h"

namespace epifuse::codegen::sm90 {
namespace {

constexpr int kStepDepth = 64;  // of K, which is counted in 16-bit elements

// Columns that narrow tiles lack together. 0: all are wide, as where narrow ones would not add up.
std::int64_t narrower_by(const Config& config, const GemmSizes& sizes, std::int64_t columns) {
  const std::int64_t excess = columns * result_columns(config) - sizes.n;
  const bool adds_up = sizes.n % kNarrower == 0 && excess <= kNarrower * columns;
  return config.two_widths && adds_up ? excess : 0;
}

// Of a tile on average, of the CTA that has most: one wide tile more than its share.
double columns_of_busiest(const Config& config, const GemmSizes& sizes, std::int64_t columns,
                          double waves) {
  if (narrower_by(config, sizes, columns) == 0) return result_columns(config);
  const double mean = static_cast<double>(sizes.n) / static_cast<double>(columns);
  return mean + (result_columns(config) - mean) / waves;
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

Lines lines_of(const plan::GemmDesc& gemm, const Config& config, const GemmSizes& sizes,
               std::int64_t columns) {
  const auto lines = [&](const plan::Operand& operand, std::int64_t row_bytes,
                         std::int64_t along_mn) {
    const std::int64_t length = operand.major == plan::Major::k ? sizes.k : along_mn;
    const std::int64_t dense = length * static_cast<std::int64_t>(size_bytes(operand.dtype));
    return lines_of_row(row_bytes != 0 ? row_bytes : dense);
  };
  Lines out{lines(gemm.a, sizes.row_bytes_a, sizes.m), lines(gemm.b, sizes.row_bytes_b, sizes.n)};
  // Along N tiles behind narrower ones begin within a line.
  if (gemm.b.major != plan::Major::k && narrower_by(config, sizes, columns) > 0) {
    out.b = lines_of_row(kNarrower * static_cast<std::int64_t>(size_bytes(gemm.b.dtype)));
  }
  return out;
}

// What CTAs wait for each other where rows of a step lie along M or N and are short: they ask for
// the same few lines of L2, which gives them to one after another.
double crowding_clocks(targets::Rows rows, std::int64_t row_bytes, double ctas) {
  constexpr double kOfRow = 0.3, kLine = 128;
  if (rows != targets::Rows::mn_major) return 0;
  return kOfRow * ctas * std::max(kLine / static_cast<double>(row_bytes), 1.0);
}

// Of a step whose operands threads move, as TMA cannot, or widen.
double mover_clocks(const ModelConstants& c, const Config& config, const GemmSizes& sizes,
                    double columns, double ctas) {
  constexpr std::int64_t kBytes = 2;  // of an element: of others none were moved
  constexpr double kWideningRowClocks = 3;
  const bool moves_a = config.rows_a != targets::Rows::aligned,
             moves_b = config.rows_b != targets::Rows::aligned;
  if (config.widens_b) return kWideningRowClocks * columns;
  if (!moves_a && !moves_b) return 0;
  const std::int64_t row_bytes_a = sizes.row_bytes_a != 0 ? sizes.row_bytes_a : sizes.m * kBytes,
                     row_bytes_b = sizes.row_bytes_b != 0 ? sizes.row_bytes_b : sizes.n * kBytes;
  return c.mover_clocks + (moves_a && moves_b ? c.second_mover_clocks : 0) +
         c.mover_row_clocks * ((moves_a ? config.tile_m : 0) + (moves_b ? columns : 0)) +
         crowding_clocks(config.rows_a, row_bytes_a, ctas) +
         crowding_clocks(config.rows_b, row_bytes_b, ctas);
}

// How CTAs share the device: the waves of tiles, all and the last one as a part, and how far they
// are out of step in the end, from 0 to 1.
struct Waves {
  double whole, parts, drift;
  double idle() const { return 1 - parts / whole; }  // of the SMs, on average
};
Waves waves_of(const ModelConstants& c, const Tiling& tiling, int at_once) {
  Waves out;
  out.parts = static_cast<double>(tiling.tiles) / at_once;
  out.whole = std::max(std::ceil(out.parts), 1.0);
  out.drift = 1 - std::exp(-std::max(out.parts - 1, 0.0) / c.drift_waves);
  return out;
}

// What a step takes beside the rest where a tile's last columns are not there: TMA fills them with
// zeros, the slower the more CTAs ask for such. Which part of a CTA's tiles these are.
struct Edge {
  double clocks = 0, part = 0;
};
Edge edge_of(const ModelConstants& c, const Config& config, const GemmSizes& sizes,
             const Tiling& tiling, const Waves& waves, double busy) {
  constexpr double kAll = 64;  // CTAs, of the constant
  const bool is_moved = config.rows_b != targets::Rows::aligned;
  if (is_moved || config.two_widths || config.products > 1) return {};
  const auto columns = static_cast<double>(tiling.columns);
  const double outside = columns * config.tile_n * config.cluster_n - static_cast<double>(sizes.n);
  const double ctas =
      std::min(static_cast<double>(ceil_div(sizes.m, config.tile_m)), busy / columns);
  const double of_cta = std::min(outside, static_cast<double>(config.tile_n) / config.cluster_m);
  return {c.outside_clocks * of_cta * ctas / kAll, std::max(1 / columns, 1 / waves.whole)};
}

double main_clocks(const ModelConstants& c, const Config& config, double columns,
                   const Lines& lines, const Waves& waves, double moved, const Edge& edge,
                   std::int64_t m, std::int64_t k) {
  constexpr double kSplitIdle = 2;  // split K slows nothing where half of the SMs are idle
  constexpr double kMoverOverlap = 2.2;
  const std::int64_t steps =
      ceil_div(ceil_div(std::max<std::int64_t>(k, 1), kStepDepth), config.split_k);
  const double multiply = config.tile_m * columns * kStepDepth / c.multiplies_per_clock;
  const double rows = 2 * config.tile_m + columns * (1 + config.tile_m / 64.0);
  const double producer = c.feed_clocks * rows;
  const double busy = overlapped({multiply, producer}, c.feed_overlap);
  const auto rows_of_a = static_cast<double>(std::min<std::int64_t>(config.tile_m, m));
  const double rows_moved = rows_of_a / config.cluster_n,
               columns_moved = columns / config.cluster_m;
  const double move = c.row_clocks * (rows_moved + columns_moved);
  const double l2 =
      (c.l2_row_clocks * lines.a * rows_moved + c.l2_column_clocks * lines.b * columns_moved) *
      std::max(0.0, 1 - c.l2_idle * waves.idle());
  const double beside = is_one_consumer(config)
                            ? 0
                            : c.step_clocks + (config.cooperative ? c.cooperative_step_clocks : 0);
  const double gather = config.gathers ? c.gather_clocks * config.tile_m : 0;
  const double own =
      std::max(busy + (move + beside) * (1 - waves.idle()) + gather, c.least_step_clocks);
  const double work = overlapped({own, l2}, c.l2_overlap);
  const double delivered =
      std::max({work, c.latency_clocks / config.stages, c.gather_floor * gather});
  const double usual = overlapped({delivered, moved}, kMoverOverlap);
  const double at_edge =
      edge.clocks > 0 ? overlapped({delivered, moved, edge.clocks}, kMoverOverlap) : usual;
  const double step = usual + edge.part * (at_edge - usual);
  const bool is_cluster = config.cluster_m * config.cluster_n > 1;
  const double slows = config.split_k == 1 || is_one_consumer(config)
                           ? 0
                           : (c.split_slows - 1) * std::max(0.0, 1 - kSplitIdle * waves.idle());
  return static_cast<double>(steps) * step * (1 + slows) + (is_cluster ? c.cluster_clocks : 0);
}

// Clusters of two such tiles take longer the more waves there are.
double tall_cluster_slows(const ModelConstants& c, const Config& config, const Waves& waves) {
  const bool is_one = config.tile_m == 256 && config.tile_n % 64 != 0;
  return is_one ? 1 + c.tall_cluster_slows * waves.drift : 1;
}

// Of promoted sums, where CTAs share rows of A rather than of B: four products in e4m3 in tiles of
// 256x128 on an H100, without scales and with those of blocks.
double promotion_slows(const plan::GemmDesc& gemm, const Config& config) {
  constexpr double kAcross = 1.05, kAcrossOfBlocks = 1.02;
  if (!gemm.promoted || config.cluster_n == 1) return 1;
  return gemm.is_scaled() ? kAcrossOfBlocks : kAcross;
}

// Of three consumers: products of 1576 to 16384 rows on an H100, beside what two take.
double three_slows(const Config& config) {
  constexpr double kThree = 1.04;
  return consumers(config) == 3 ? kThree : 1;
}

// Of tiles whose B is staged, widened and written again, all in shared memory: 18 products of 24 to
// 1024 rows on an H200, in e4m3.
double widening_slows(const Config& config) {
  constexpr double kWidened = 1.2;
  return config.widens_b ? kWidened : 1;
}

// Of tiles that compute D^T of up to eight rows, most of whose columns are not there, with weights
// along K: six products on an H100, beside kernels for few rows.
double few_rows_slow(const plan::GemmDesc& gemm, const Config& config, const GemmSizes& sizes) {
  constexpr std::int64_t kFew = 8;
  constexpr double kSlows = 1.08;
  const bool are_few = config.swapped && sizes.n <= kFew;
  return are_few && gemm.a.major == plan::Major::k ? kSlows : 1;
}

double gate_slows(const ModelConstants& c, const plan::GemmDesc& gemm, const Config& config) {
  constexpr int kTall = 192, kWide = 192;
  const double few = is_short_of_stages(config) ? c.short_of_stages_slows : 1;
  if (gemm.gating == plan::Gating::none || gemm.b.major == plan::Major::k) return few;
  if (config.cooperative) return few * c.cooperative_gate_slows;
  if (config.tile_m == kTall) return few * c.tall_gate_slows;
  return few * (config.tile_n == kWide && has_adjacent_gates(gemm) ? c.wide_by_turns_slows : 1);
}

// Of a chunk's elements, beside its start.
double elements_clocks(const ModelConstants& c, const Pressure& load, const Config& config) {
  return c.operation_clocks * load.cost + c.store_clocks * std::max(load.store_slots - 1, 0) +
         c.reduction_clocks * load.reductions + c.lane_load_clocks * config.lane_loads +
         c.lane_store_clocks * config.lane_stores;
}

// Of a tile: a start, and first what a thread loads and stores in memory.
double tile_start_clocks(const ModelConstants& c, const Pressure& load, const Config& config) {
  constexpr double kOfStores = 0.3;  // nothing waits for them
  return c.tile_clocks + (config.lane_loads > 0 ? c.lane_wait_clocks : 0) +
         (config.lane_stores > 0 ? kOfStores * c.lane_wait_clocks : 0) +
         (config.two_widths ? c.narrow_clocks + c.narrow_load_clocks * load.load_slots : 0);
}

double epilogue_clocks(const ModelConstants& c, const Pressure& load, bool in_ring,
                       const Config& config, double columns) {
  constexpr double kChunk = 64 * 64;
  const double area = config.tile_m * columns / kChunk;
  const double whole = config.products * chunks_of_tile(config);
  const auto of_cta = [&](double chunks) {
    if (is_one_consumer(config)) {  // a warp's chunks are dealt out to the CTAs, whole ones
      return std::min<double>(chunks, ceil_div(chunks_of_tile(config), config.split_k));
    }
    if (config.split_k == 1) return chunks;
    return std::max(chunks / config.split_k, config.tile_n > 64 ? 0.5 : 1.0);
  };
  const double loads = (in_ring ? c.ring_load_clocks : c.load_clocks) * load.load_slots;
  const double clocks = of_cta((area + whole) / 2) * c.chunk_clocks +  // a cut chunk starts as well
                        of_cta(whole) * loads +                        // and waits for its loads
                        of_cta(area) * elements_clocks(c, load, config);
  return clocks / (config.cooperative ? 2 : 1) + tile_start_clocks(c, load, config);
}

// Clocks that memory's time overlaps with, and those of the last epilogue behind both.
struct Clocks {
  double beside_memory, last;
};
Clocks clocks_of(const ModelConstants& c, const Config& config, double waves, double main,
                 double epilogue) {
  const bool is_cluster = config.cluster_m * config.cluster_n > 1;
  const double start = c.fill_clocks + (is_cluster ? c.cluster_fill_clocks : 0);
  if (is_one_consumer(config)) {
    const double added =
        std::min(config.tile_n / 64.0, 1.0) * ceil_div(chunks_of_tile(config), config.split_k);
    const double shared = epilogue + c.single_share_clocks * added * (config.split_k - 1);
    return {start + waves * main + (waves - 1) * (shared + c.single_restart_clocks),
            c.single_clocks + shared};
  }
  if (!config.cooperative) {
    const double rounds = std::ceil(waves / 2);
    const double turns = rounds * (main + epilogue) + (2 * rounds > waves ? 0 : main);
    return {start + std::max(waves * main, turns - epilogue), epilogue};
  }
  const int chunks = ceil_div(chunks_of_tile(config) / 2, config.split_k);  // of a consumer
  const double exchange = config.split_k > 1 ? c.exchange_clocks + c.exchange_chunk_clocks *
                                                                       chunks * (config.split_k - 1)
                                             : 0;
  return {start + waves * main + (waves - 1) * (epilogue + exchange), epilogue + exchange};
}

// `unpaired` and `given` in the kernel's orientation.
double us_of(const plan::FusedGemm& unpaired, const Config& config, const GemmSizes& given,
             const targets::DeviceProfile& device) {
  constexpr double kNeverChosen = 1e3;
  const targets::DeviceLimits& limits = device.limits;
  ModelConstants c = constants_of(device);
  const plan::FusedGemm step = as_compiled(unpaired, {});
  if (size_bytes(step.gemm.a.dtype) == 1) c.multiplies_per_clock /= c.eight_bit_slows;
  GemmSizes sizes = even_groups(given);
  sizes.k = depth_in_16_bits(step.gemm.a.dtype, sizes.k);
  const Tiling tiling = expected_tiling(config, given, limits);
  const int at_once = std::max(clusters_at_once(cluster_size(config), limits), 1);
  const Waves waves = waves_of(c, tiling, at_once);
  const double columns = columns_of_busiest(config, sizes, tiling.columns, waves.whole);
  const Pressure load = pressure(step.epilogue);
  const Lines lines = lines_of(step.gemm, config, given, tiling.columns);
  const double wide = columns * config.products;
  const double busy = static_cast<double>(std::min<std::int64_t>(tiling.tiles, at_once));
  const double moved = mover_clocks(c, config, given, wide, busy);
  const Edge edge = edge_of(c, config, sizes, tiling, waves, busy);
  const double main = main_clocks(c, config, wide, lines, waves, moved, edge, sizes.m, sizes.k) *
                      gate_slows(c, step.gemm, config) * tall_cluster_slows(c, config, waves) *
                      promotion_slows(step.gemm, config) * three_slows(config) *
                      widening_slows(config);
  const double epilogue = epilogue_clocks(
      c, load, loads_in_ring(EpilogueLayout(step.epilogue), config, {}), config, wide);
  const Clocks clocks = clocks_of(c, config, waves.whole, main, epilogue);
  const double memory = memory_us(c, load, config, sizes, tiling, waves.drift, at_once, wide) +
                        groups_apart_us(c, config, sizes, tiling, lines.b);
  const double us =
      few_rows_slow(step.gemm, config, sizes) *
      (overlapped({clocks.beside_memory / c.clocks_per_us, memory}, c.overlap) +
       clocks.last / c.clocks_per_us + c.launch_us + (load.reductions > 0 ? c.finish_us : 0));
  return tiling.tiles < kMostTiles ? us : kNeverChosen * us;
}

}  // namespace

double expected_us(const plan::FusedGemm& step, const Config& config, const GemmSizes& sizes,
                   const targets::DeviceProfile& device) {
  return config.swapped ? us_of(exchanged(step), config, exchanged(sizes), device)
                        : us_of(step, config, sizes, device);
}

}  // namespace epifuse::codegen::sm90
