// Which tiles and schedules the Hopper GEMM may use for an epilogue.
#include <algorithm>
#include <bit>
#include <iterator>
#include <span>

#include "codegen/block_scales.h"
#include "codegen/epilogue_cuda.h"
#include "codegen/product_roles.h"
#include "codegen/sm90/dense.h"
#include "codegen/sm90/dense_suits.h"

namespace epifuse::codegen::sm90 {
namespace {

using plan::Access;
using plan::Epilogue;
using plan::FusedGemm;
using plan::StoreKind;

constexpr int kMostStages = 16;
constexpr int kFewestStages = 3;
constexpr int kFewestOfMovers = 2;  // of rows that were staged before

constexpr int kInstructionsByHand = 12;  // an element that is read or written alone

// The candidates.
constexpr TileShape kShapes[] = {
    {128, 192, false, false, 1, 1, 1}, {128, 192, false, true, 1, 1, 1},
    {128, 192, false, false, 2, 1, 1}, {192, 128, false, false, 1, 1, 1},
    {128, 128, false, false, 1, 1, 1}, {128, 128, false, true, 1, 1, 1},
    {128, 128, false, false, 2, 1, 1}, {64, 256, false, false, 1, 1, 1},
    {64, 192, false, false, 1, 1, 1},  {64, 128, false, false, 1, 1, 1},
    {128, 64, false, false, 1, 1, 1},  {128, 128, true, false, 1, 1, 1},
    {128, 256, true, false, 2, 1, 1},  {256, 128, true, false, 2, 1, 1},
    {256, 128, true, false, 1, 2, 1},  {128, 192, true, false, 1, 1, 2},
    {128, 256, true, false, 1, 1, 2},  {256, 128, true, false, 1, 1, 2},
    {128, 128, true, false, 1, 1, 2},  {128, 128, true, false, 1, 1, 3},
    {128, 80, true, false, 1, 1, 2},   {128, 96, true, false, 1, 1, 2},
    {128, 64, true, false, 1, 1, 2},   {128, 64, true, false, 1, 1, 3},
    {128, 128, false, true, 2, 1, 1},  {256, 128, true, true, 2, 1, 1},
    {128, 48, false, false, 1, 1, 1},  {128, 80, false, false, 1, 1, 1},
    {128, 96, false, false, 1, 1, 1},  {128, 112, false, false, 1, 1, 1},
    {128, 144, false, false, 1, 1, 1}, {128, 160, false, false, 1, 1, 1},
    {128, 176, false, false, 1, 1, 1}, {64, 96, false, false, 1, 1, 1},
    {64, 160, false, false, 1, 1, 1},  {64, 224, false, false, 1, 1, 1},
    {192, 96, false, false, 1, 1, 1},  {192, 112, false, false, 1, 1, 1},
    {256, 160, true, false, 2, 1, 1},  {128, 224, true, false, 2, 1, 1},
    {128, 128, true, false, 2, 1, 1},  {128, 208, true, false, 2, 1, 1},
    {128, 240, true, false, 2, 1, 1},  {256, 144, true, false, 2, 1, 1},
    {64, 32, false, false, 1, 1, 1},   {64, 48, false, false, 1, 1, 1},
    {64, 64, false, false, 1, 1, 1},   {64, 80, false, false, 1, 1, 1},
    {64, 112, false, false, 1, 1, 1},  {64, 32, false, false, 1, 1, 2},
    {64, 32, false, false, 1, 1, 4},   {64, 64, false, false, 1, 1, 2},
    {64, 64, false, false, 1, 1, 3},   {64, 96, false, false, 1, 1, 2},
    {64, 112, false, false, 1, 1, 3},  {64, 128, false, false, 1, 1, 2},
    {128, 64, true, false, 1, 1, 4},   {128, 128, true, false, 1, 1, 4},
    {64, 32, false, false, 1, 1, 8},   {64, 64, false, false, 1, 1, 4},
    {64, 64, false, false, 1, 1, 8},   {64, 128, false, false, 1, 1, 4},
    {192, 48, false, false, 1, 1, 1},  {192, 64, false, false, 1, 1, 1},
    {192, 128, true, false, 1, 1, 1},  {192, 160, true, false, 2, 1, 1},
    {192, 192, true, false, 1, 1, 1},  {192, 192, true, false, 2, 1, 1},
    {192, 192, true, false, 1, 2, 1},  {256, 160, true, false, 1, 2, 1},
};
// And those of results with blocks of columns: of few rows the second CTA of a cluster would have
// none, and smaller tiles have no whole blocks of gates.
constexpr TileShape kShapesOfBlocks[] = {{128, 256, true, false, 1, 1, 1}};

// And those of weights that are widened, for each row of tiles anew, so that tall tiles are best.
constexpr TileShape kShapesOfWidened[] = {{256, 128, true, false, 1, 1, 1},
                                          {256, 96, true, false, 1, 1, 1},
                                          {128, 256, true, false, 1, 1, 1}};

// And those that compute D^T, whose widths are of the product's rows: where its columns are few,
// and where rows fill whole waves, or weights along N take multiples of 64 alone. Of 24 random
// products on an H100 these were ahead of all others at 10 (docs/gotchas-hopper.md).
constexpr TileShape kSwappedShapes[] = {
    {64, 32, false, false, 1, 1, 1},   {64, 48, false, false, 1, 1, 1},
    {64, 64, false, false, 1, 1, 1},   {64, 80, false, false, 1, 1, 1},
    {64, 112, false, false, 1, 1, 1},  {64, 144, false, false, 1, 1, 1},
    {128, 112, false, false, 1, 1, 1}, {128, 144, false, false, 1, 1, 1},
    {128, 192, false, false, 1, 1, 1}, {128, 192, false, false, 2, 1, 1},
    {64, 32, false, false, 1, 1, 4},   {64, 32, false, false, 1, 1, 8},
    {128, 128, true, false, 1, 1, 1},  {128, 128, true, false, 1, 1, 4},
    {192, 192, true, false, 1, 1, 1},  {128, 144, true, false, 2, 1, 1},
    {128, 160, true, false, 2, 1, 1},  {128, 224, true, false, 2, 1, 1},
    {128, 256, true, false, 2, 1, 1},  {256, 160, true, false, 2, 1, 1},
    {256, 160, true, false, 1, 2, 1},  {192, 144, true, false, 1, 2, 1},
};

int chunks_of_consumer(const Config& config) {
  return chunks_of_tile(config) / consumers_of_tile(config);
}

// Columns computed at once: many hide latencies, but their temporaries stand beside up to 192
// accumulators. These limits, and those of the largest tiles, are what compiles without spills over
// the corpus (2026-11-22).
int math_columns(const Pressure& p, const TileShape& shape, const plan::GemmDesc& gemm) {
  const bool batched = is_batched(gemm), gated = p.products > 1;
  const int slots = p.load_slots + p.store_slots;
  if ((gated || p.squares) && (slots > 2 || p.many_vectors)) return 16;
  constexpr int kFewAccumulators = 64;
  if (consumers(shape.m, shape.cooperative) == 3 && accumulators(shape) > kFewAccumulators) {
    return 16;
  }
  if (accumulators(shape) <= kMostAccumulatorsOfAll) {
    if (slots > 4 || p.cost > 48 || (p.rounds && shape.two_widths)) return 16;
    const bool is_cut = accumulators(shape) > 96 && shape.n % kChunkColumns != 0;
    if (is_cut) return p.cost > 9 ? 16 : 32;
    const bool has_vectors = batched ? p.vectors : p.many_vectors;
    const bool is_tight =
        (shape.cluster_m * shape.cluster_n > 1 && (shape.m == 256 || has_vectors)) ||
        (batched && p.reductions > 0) || (gemm.a.lookup >= 0 && has_adjacent_gates(gemm));
    return slots <= 2 && p.cost <= 20 && !p.rounds && !shape.two_widths && !is_tight ? 64 : 32;
  }
  if (batched || (slots > 1 && p.vectors) || p.many_vectors) return 16;
  if (gated && (p.rounds || has_adjacent_gates(gemm))) return 16;
  if (p.vectors && p.cost > 9 && shape.two_widths) return 16;
  const int most_cost = slots > 1 ? 16 : shape.cluster_m * shape.cluster_n > 1 ? 24 : 32;
  return slots > 2 || p.cost > most_cost ? 16 : 32;
}

// A step's own sums take registers beside the accumulators, and while they are added the tensor
// cores wait for this consumer: ping-pong consumers would not let the other one in.
bool suits_promotion(const Config& config, const FusedGemm& step) {
  constexpr int kMostOfBoth = 192;
  if (!step.gemm.promoted) return true;
  if (consumers(config) == 3) return false;  // slower by measure (docs/gotchas-hopper.md)
  const int parts = column_parts(config, step.gemm), of_step = config.tile_n / 2 / parts;
  // Elsewhere parts are no faster, but smaller tiles of gates have no whole blocks of the result.
  const bool is_least = config.products > 1 && step.epilogue.has_blocks();
  if (parts > 1 && config.scaling != Scaling::by_tile && !is_least) return false;
  return (config.cooperative || is_one_consumer(config)) &&
         accumulators(config) + of_step <= kMostOfBoth;
}

// One scale of B for all columns of a tile, of each product, where its blocks end with tiles; else
// each column's own.
Scaling scaling_of(const plan::GemmDesc& gemm, const Config& config) {
  if (!gemm.is_scaled()) return Scaling::none;
  const bool by_turns = has_adjacent_gates(gemm);
  const int columns = by_turns ? config.tile_n : result_columns(config);
  return have_one_scale(gemm, columns, by_turns) ? Scaling::by_tile : Scaling::by_column;
}

// Movers' registers are the consumers'.
bool takes_movers(const Config& config) {
  const bool is_alone = config.cluster_m * config.cluster_n == 1;
  return is_alone && (config.split_k == 1 || config.widens_b) && !config.two_widths &&
         consumers(config) != 3 && accumulators(config) <= kMostAccumulatorsOfAll;
}

bool takes_misaligned_rows(const Config& config) {
  return takes_movers(config) && config.tile_n % kChunkColumns == 0;
}

// An operand that is contiguous along M or N comes in whole blocks of 64 from each CTA of a
// cluster.
bool shares_whole_blocks(const plan::Operand& operand, int tile, int sharers) {
  return operand.major == plan::Major::k || tile % (64 * sharers) == 0;
}
bool shares_whole_blocks(const plan::Operand& a, const plan::Operand& b, const Config& config) {
  return shares_whole_blocks(a, config.tile_m, config.cluster_n) &&
         shares_whole_blocks(b, config.tile_n, config.cluster_m);
}

// Whether every result can be staged where one full-size load was: as many of both, equally wide.
bool can_stage_in_place(const EpilogueLayout& layout) {
  const std::vector<int> tiles = layout.of(List::tiles), results = layout.of(List::results);
  const auto bytes = [](const std::vector<Place>& places, int i) {
    return places[static_cast<std::size_t>(i)].bytes;
  };
  if (tiles.empty() || tiles.size() != results.size()) return false;
  if (layout.unstaged(List::tiles) != 0) return false;
  for (std::size_t i = 0; i < tiles.size(); ++i) {
    if (bytes(layout.loads(), tiles[i]) != bytes(layout.stores(), results[i])) return false;
  }
  return true;
}

// Room for either role of row and column vectors, whichever a variant asks for.
EpilogueLayout with_most_rows(const Epilogue& epilogue) {
  EpilogueLayout layout(epilogue), transposed(epilogue, true);
  return transposed.size(List::rows) > layout.size(List::rows) ? transposed : layout;
}

int stages_that_fit(const EpilogueLayout& layout, const Config& config,
                    const targets::TargetInfo& target) {
  const int fixed = fixed_bytes(layout, config, {});
  return std::min((target.smem_per_block_bytes - fixed) / stage_bytes(config), kMostStages);
}

// Stages that keep enough bytes of operands on their way from L2, beside those being multiplied.
int enough_stages(const Config& config) {
  constexpr int kBytesUnderway = 96 << 10, kFewest = 4;  // 64 bytes a clock for 1500 clocks
  // Gates of groups take up to 3 % less with one more stage than with results two deep.
  constexpr int kBytesOfGroups = 128 << 10;
  const int bytes = stage_bytes(config);
  const int underway = config.grouped && config.products > 1 ? kBytesOfGroups : kBytesUnderway;
  return std::max((underway + bytes - 1) / bytes + 1, kFewest);
}

// As many chunks in flight as leave room for enough stages, up to `most`: with the loads of a whole
// tile in flight, they arrive under the other mainloops.
void fit_depth(const EpilogueLayout& layout, Config& config, int Config::*depth, int most,
               const targets::TargetInfo& target) {
  const int fewest = std::min(stages_that_fit(layout, config, target), enough_stages(config));
  for (int tried = config.split_k > 1 ? 1 : most; tried > 1; --tried) {
    if (chunks_of_consumer(config) % tried != 0) continue;
    Config deeper = config;
    deeper.*depth = tried;
    if (stages_that_fit(layout, deeper, target) < fewest) continue;
    config = deeper;
    break;
  }
}

Config config_of(const TileShape& shape, const FusedGemm& step, const Pressure& registers,
                 const EpilogueLayout& layout, const targets::TargetInfo& target) {
  Config config;
  config.tile_m = shape.m;
  config.tile_n = shape.n;
  config.math_columns = math_columns(registers, shape, step.gemm);
  config.cooperative = shape.cooperative;
  config.two_widths = shape.two_widths;
  config.cluster_m = shape.cluster_m;
  config.cluster_n = shape.cluster_n;
  config.split_k = shape.split_k;
  config.products = registers.products;
  config.grouped = step.gemm.is_grouped();
  config.gathers = step.gemm.a.lookup >= 0;
  config.widens_b = step.gemm.widens_b();
  config.scaling = scaling_of(step.gemm, config);
  const bool in_ring = loads_in_ring(layout, config, {});
  config.in_place = !in_ring && !layout.takes_maxima() && can_stage_in_place(layout);
  if (config.in_place) {
    fit_depth(layout, config, &Config::load_depth, chunks_of_consumer(config), target);
  } else {
    config.load_depth = fewest_loads(layout);
    if (registers.load_slots > 0 && !in_ring && config.load_depth == 1) {
      fit_depth(layout, config, &Config::load_depth, 2, target);
    }
    if (registers.store_slots > 0) fit_depth(layout, config, &Config::store_depth, 2, target);
  }
  config.stages = stages_that_fit(layout, config, target);
  return config;
}

}  // namespace

Pressure pressure(const Epilogue& epilogue) {
  Pressure out{.products = epilogue.num_accumulators, .squares = epilogue.has_squares()};
  for (const plan::Compute& compute : epilogue.computes) {
    out.rounds = out.rounds || compute.op == ir::Op::cast;
    out.cost += compute.op == ir::Op::cast ? 2 : ir::info(compute.op).cost;
  }
  const EpilogueLayout layout(epilogue);
  out.by_hand =
      std::popcount(layout.unstaged(List::tiles)) + std::popcount(layout.unstaged(List::results));
  out.cost += kInstructionsByHand * out.by_hand;
  out.load_slots = load_slots(layout, 0);
  out.store_slots = store_slots(layout, 0);
  out.reductions = layout.size(List::partials) + (epilogue.has_blocks() ? 1 : 0);
  out.row_reductions = static_cast<int>(
      std::ranges::count_if(epilogue.stores, plan::reduces_rows, &plan::Store::kind));
  out.rows = layout.size(List::rows);
  const int num_tiles = layout.size(List::tiles);
  const auto num_loads = static_cast<int>(epilogue.loads.size());
  out.vectors = out.rows > 1 || out.rows + num_tiles < num_loads;
  out.many_vectors = num_loads - num_tiles > 2;
  return out;
}

int cluster_size(const Config& config) {
  return config.cluster_m * config.cluster_n * config.split_k;
}

bool is_one_consumer(const Config& config) { return !config.cooperative && config.split_k > 1; }

bool is_short_of_stages(const Config& config) {
  constexpr int kWantedOfGates = 164 << 10, kEnoughStages = 6;
  return config.products > 1 && config.stages < kEnoughStages &&
         config.stages * stage_bytes(config) < kWantedOfGates;
}

std::optional<Config> fitted(const FusedGemm& given, const Config& config, const Variant& variant,
                             const targets::TargetInfo& target) {
  const FusedGemm step = as_compiled(given, variant);
  if (config.products > 1 && (variant.swapped || variant.misaligned_b)) return std::nullopt;
  const bool is_usual = !variant.swapped && !variant.is_misaligned() &&
                        (variant.non_tma_loads | variant.non_tma_stores) == 0;
  if (config.swapped && !is_usual) return std::nullopt;
  if (variant.swapped && !shares_whole_blocks(step.gemm.b, step.gemm.a, config)) {
    return std::nullopt;
  }
  Config out = config;
  if (consumers(config) == 3 && (variant.non_tma_loads | variant.non_tma_stores) != 0) {
    return std::nullopt;
  }
  if (variant.is_misaligned()) {
    if (config.widens_b || !takes_misaligned_rows(config) || step.gemm.is_k_grouped()) {
      return std::nullopt;
    }
  }
  out.scaling = scaling_of(variant.swapped ? exchanged(step).gemm : step.gemm, out);
  const EpilogueLayout layout(step.epilogue, are_exchanged(config, variant));
  const auto room_beside = [&](const Config& tried) {
    return target.smem_per_block_bytes - fixed_bytes(layout, tried, variant);
  };
  // Results that are not staged where loads were take room of their own.
  while (variant.copied_stores != 0 && out.load_depth > fewest_loads(layout) &&
         room_beside(out) < config.stages * stage_bytes(out)) {
    --out.load_depth;
    while (chunks_of_consumer(out) % out.load_depth != 0) --out.load_depth;
  }
  const int room = room_beside(out);
  const int fewest = has_movers(config, variant) ? kFewestOfMovers : kFewestStages;
  out.stages = std::min(config.stages, room / stage_bytes(config));
  if (room < 0 || out.stages < fewest) return std::nullopt;
  set_rows(step.gemm, variant, out);
  out.whole_sectors = writes_sectors(layout, out, variant);
  set_lanes(layout, variant, out);
  return out;
}

void set_rows(const plan::GemmDesc& gemm, const Variant& variant, Config& config) {
  const auto rows = [](const plan::Operand& operand, bool is_misaligned) {
    if (!is_misaligned) return targets::Rows::aligned;
    return operand.major == plan::Major::k ? targets::Rows::k_major : targets::Rows::mn_major;
  };
  config.rows_a = rows(variant.swapped ? gemm.b : gemm.a, variant.misaligned_a);
  config.rows_b = rows(variant.swapped ? gemm.a : gemm.b, variant.misaligned_b);
}

std::vector<Config> configs_of(std::span<const TileShape> shapes, const FusedGemm& given,
                               const targets::TargetInfo& target) {
  const FusedGemm step = as_compiled(given, {});
  const Pressure registers = pressure(step.epilogue);
  const EpilogueLayout layout = with_most_rows(step.epilogue);
  std::vector<Config> out;
  for (const TileShape& shape : shapes) {
    if (!suits(shape, step, registers, layout)) continue;
    const Config config = config_of(shape, step, registers, layout, target);
    if (!shares_whole_blocks(step.gemm.a, step.gemm.b, config)) continue;
    if (!suits_promotion(config, step)) continue;
    if (config.widens_b && !takes_movers(config)) continue;
    if (config.stages >= kFewestStages) out.push_back(config);
  }
  return out;
}

int column_parts(const Config& config, const plan::GemmDesc& gemm) {
  constexpr int kMostAtOnce = 192;
  const bool has_halves = config.tile_n % (2 * kChunkColumns) == 0;  // with instructions of a half
  return gemm.promoted && has_halves && config.tile_n > kMostAtOnce ? 2 : 1;
}

std::vector<Config> configs(const FusedGemm& step, const targets::TargetInfo& target) {
  std::vector<Config> out = configs_of(kShapes, step, target);
  if (can_swap(step)) {
    for (Config config : configs_of(kSwappedShapes, exchanged(step), target)) {
      config.swapped = true;
      out.push_back(config);
    }
  }
  if (step.gemm.widens_b()) {
    std::ranges::copy(configs_of(kShapesOfWidened, step, target), std::back_inserter(out));
  } else if (step.epilogue.has_blocks()) {
    std::ranges::copy(configs_of(kShapesOfBlocks, step, target), std::back_inserter(out));
  }
  return out;
}

}  // namespace epifuse::codegen::sm90
