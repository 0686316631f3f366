#include "codegen/sm90/dense_suits.h"

#include <algorithm>

#include "codegen/sm90/operand_format.h"

namespace epifuse::codegen::sm90 {
namespace {

using plan::FusedGemm;

constexpr int kMostAccumulatorsOfGather = 160;
constexpr int kMostAccumulatorsOfGroups = 176;  // with several vectors
constexpr int kMostAccumulatorsOfRows = 176;    // that are reduced beside a result, of tight shapes

// Whether registers are left beside more than kMostAccumulatorsOfAll.
bool takes_most_accumulators(const Pressure& p, const TileShape& shape,
                             const plan::GemmDesc& gemm) {
  const bool batched = is_batched(gemm), grouped = gemm.is_grouped();
  const int slots = p.load_slots + p.store_slots;
  if (batched && (shape.two_widths || p.load_slots + p.by_hand > 0)) return false;
  if (grouped && slots > 1 && (p.products > 1 || p.vectors)) return false;
  if (grouped && p.vectors && accumulators(shape) > kMostAccumulatorsOfGroups) return false;
  if (gemm.a.lookup >= 0 && accumulators(shape) > kMostAccumulatorsOfGather) return false;
  if (shape.two_widths && p.store_slots > 1) return false;
  // Of 8-bit operands two vectors are scales, and a bias is the third.
  const bool takes_vectors = is_narrow(gemm.a.dtype) && !batched;
  // A reduction of rows takes two registers, one of columns two for each eight at once.
  if (p.reductions > p.row_reductions || (p.many_vectors && !takes_vectors)) return false;
  if (p.row_reductions > 0 && slots > 0 && accumulators(shape) > kMostAccumulatorsOfRows &&
      (shape.m == 192 || shape.cluster_m * shape.cluster_n > 1 || p.cost > 18)) {
    return false;
  }
  const bool is_widest = shape.m == 128 && shape.n == 192;
  if (slots > 2) return slots == 3 && p.cost <= 16 && !p.rounds && !shape.cooperative && !is_widest;
  if (slots == 2) return p.cost <= (p.rounds ? 16 : 32);
  return p.cost <= (p.rounds ? 30 : 40);
}

// Three consumers have 160 registers a thread.
bool suits_three(const TileShape& shape, const plan::GemmDesc& gemm, const Pressure& p) {
  constexpr int kMostSlots = 2;
  if (consumers(shape.m, shape.cooperative) < 3) return true;
  return p.by_hand == 0 && p.load_slots + p.store_slots <= kMostSlots && !gemm.has_groups() &&
         gemm.a.lookup < 0;
}

// Of a gated product a tile of B has two parts of whole groups of 16 columns, and where it runs
// along N of whole blocks of 64. Clusters take registers that roundings and several results need.
bool suits_gate(const TileShape& shape, const plan::GemmDesc& gemm, const Pressure& p) {
  constexpr int kGroupColumns = 16;
  if (gemm.gating == plan::Gating::none) return true;
  if (shape.two_widths || shape.n % (2 * kGroupColumns) != 0) return false;
  const bool is_tight = p.rounds && p.load_slots + p.store_slots > 1;
  if (is_tight && shape.cluster_m * shape.cluster_n > 1) return false;
  if (gemm.b.major == plan::Major::k || has_adjacent_gates(gemm)) return true;
  return shape.n % (2 * kChunkColumns) == 0;
}

// How many tiles there are is not known when a kernel starts, so none are made to fill whole waves,
// and no cluster is started for one of them. Rows that are looked up come to one CTA.
bool suits_groups(const TileShape& shape, const plan::GemmDesc& gemm) {
  if (gemm.a.lookup >= 0 && shape.cluster_m * shape.cluster_n > 1) return false;
  return !gemm.has_groups() || (!shape.two_widths && shape.split_k == 1);
}

// TMA stores multiples of 16 bytes, and a narrow tile's last chunk has 56 columns.
bool suits_results(const TileShape& shape, const EpilogueLayout& layout) {
  return !shape.two_widths || std::ranges::none_of(layout.stores(), [](const Place& place) {
    return place.staging == Staging::chunks && place.bytes == 1;
  });
}

// Block scales are of tiles of one width, and no instruction adds up integers of a narrow tile.
bool suits_sums(const TileShape& shape, const plan::GemmDesc& gemm) {
  const bool adds_integers = operand_format(gemm.a.dtype).adds_integers();
  return !shape.two_widths || (!gemm.is_scaled() && !adds_integers);
}

// Each CTA has whole blocks.
bool suits_blocks(const TileShape& shape, const FusedGemm& step) {
  if (!step.epilogue.has_blocks()) return true;
  if (shape.m % step.epilogue.block_rows != 0) return false;
  const int columns = shape.n / step.epilogue.num_accumulators;
  return !shape.two_widths && shape.split_k == 1 && columns % ir::kBlockColumns == 0;
}

}  // namespace

bool can_swap(const FusedGemm& given) {
  constexpr int kBytes = 2;
  const FusedGemm step = as_compiled(given, {});
  const plan::GemmDesc& gemm = step.gemm;
  if (gemm.gating != plan::Gating::none || gemm.has_groups() || gemm.is_k_grouped() ||
      gemm.is_scaled() || gemm.a.lookup >= 0 || gemm.widens_b()) {
    return false;
  }
  if (operand_format(gemm.a.dtype).adds_integers()) return false;  // the largest tiles spill
  if (step.epilogue.reduces() || step.epilogue.has_blocks()) return false;
  const auto is_suited = [](const Place& place) {
    const bool is_full = place.list == List::tiles || place.list == List::results;
    return !is_full ||
           (place.staging == Staging::chunks && place.bytes == kBytes && !place.is_indexed);
  };
  const EpilogueLayout layout(step.epilogue);
  return std::ranges::all_of(layout.loads(), is_suited) &&
         std::ranges::all_of(layout.stores(), is_suited);
}

bool suits(const TileShape& shape, const FusedGemm& step, const Pressure& registers,
           const EpilogueLayout& layout) {
  if (accumulators(shape) > kMostAccumulatorsOfAll &&
      !takes_most_accumulators(registers, shape, step.gemm)) {
    return false;
  }
  return suits_three(shape, step.gemm, registers) && suits_gate(shape, step.gemm, registers) &&
         suits_blocks(shape, step) && suits_groups(shape, step.gemm) &&
         suits_results(shape, layout) && suits_sums(shape, step.gemm);
}

}  // namespace epifuse::codegen::sm90
