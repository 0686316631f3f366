// Groups of rows, and rows that are looked up, as the Hopper GEMM takes them.
//
// A row for each group, repeated for the group's rows, is to a tile what a row of each product of a
// batch is: repeat_rows of b[g, n] is row b[group, n], of e[g, 1] the scalar e[group].
#include <fmt/format.h>

#include <utility>

#include "codegen/epilogue_cuda.h"
#include "codegen/integers.h"
#include "codegen/sm90/dense.h"
#include "ir/views.h"

namespace epifuse::codegen::sm90 {
namespace {

using plan::Access;
using plan::FusedGemm;
using plan::WhyNot;

constexpr std::size_t kGatheredBytes = 2;  // an element

bool is_indexed(const plan::Load& load) { return load.lookup >= 0 && !load.by_group; }

// Of a load whose rows are looked up.
std::optional<WhyNot> why_not_lookup(const plan::Plan& plan, const plan::GemmDesc& gemm,
                                     const plan::Load& load) {
  const ir::Graph& graph = plan.graph;
  const auto no = [&](std::string_view what) {
    return WhyNot{"looked_up_rows", fmt::format("{} {}", load.name, what)};
  };
  if (!gemm.is_grouped() || gemm.is_padded()) {
    return no("has rows that are looked up, which this family reads beside groups of rows alone.");
  }
  const ir::Node& lookup = graph[load.lookup];
  if (load.by_group && ir::index_of(lookup) != gemm.groups) {
    return no("repeats rows for other groups than the product's.");
  }
  const std::size_t rank = graph[load.value].type.shape.size();
  const auto found = ir::lookup(graph, load.value);
  if (!found || rank < 2 || found->dim != rank - 2) return no("is not looked up along its rows.");
  return std::nullopt;
}

}  // namespace

std::optional<WhyNot> why_not_groups(const plan::Plan& plan, const FusedGemm& step) {
  const plan::GemmDesc& gemm = step.gemm;
  if (gemm.a.lookup >= 0) {
    const std::string& name = plan.graph[gemm.a.value].name;
    const auto found = ir::lookup(plan.graph, gemm.a.value);
    const bool by_rows = found && found->dim == 0 && gemm.a.major == plan::Major::k;
    if (!by_rows || size_bytes(gemm.a.dtype) != kGatheredBytes) {
      return WhyNot{
          "looked_up_rows",
          fmt::format("{} is looked up, which takes rows along K of 16-bit elements.", name)};
    }
  }
  for (const plan::Load& load : step.epilogue.loads) {
    if (load.lookup < 0) continue;
    if (auto no = why_not_lookup(plan, gemm, load)) return no;
  }
  for (const plan::Store& store : step.epilogue.stores) {
    const bool puts_rows = store.index >= 0;
    if (puts_rows && (!gemm.is_grouped() || gemm.is_padded())) {
      return WhyNot{"put_rows",
                    fmt::format("rows of {} are put by an index, which this family does beside "
                                "groups of rows alone.",
                                store.name)};
    }
  }
  return std::nullopt;
}

FusedGemm as_compiled(FusedGemm step, const Variant& variant) {
  for (plan::Load& load : step.epilogue.loads) {
    if (!load.by_group) continue;
    load.access =
        load.access == Access::tile || load.access == Access::row ? Access::row : Access::scalar;
    load.batched = true;
  }
  return paired(std::move(step), variant);
}

IndexedRows indexed_rows(const plan::Epilogue& epilogue) {
  IndexedRows out;
  const auto bits = [&](Access access) {
    unsigned found = 0;
    int i = 0;
    for (int load : loads_of(epilogue, access)) {
      found |= static_cast<unsigned>(is_indexed(epilogue.loads[static_cast<std::size_t>(load)]))
               << i++;
    }
    return found;
  };
  out.cols = bits(Access::col);
  out.tiles = bits(Access::tile);
  int i = 0;
  for (const plan::Store& store : epilogue.stores) {
    if (store.kind != plan::StoreKind::tile) continue;
    out.stores |= static_cast<unsigned>(store.index >= 0) << i++;
  }
  return out;
}

void bind_integers(const plan::Plan& plan, const FusedGemm& step, const Bound& bound,
                   abi::GemmParams& params) {
  const auto integers = [&](ir::ValueId node) {
    return kernel_integers(plan.graph, plan.graph[node], bound);
  };
  if (step.gemm.is_grouped()) params.groups = integers(step.gemm.matmul);
  if (step.gemm.a.lookup >= 0) params.rows_of_a = integers(step.gemm.a.lookup);
  int cols = 0, tiles = 0, stores = 0;
  for (const plan::Load& load : step.epilogue.loads) {
    if (load.access == Access::col) {
      if (is_indexed(load)) params.rows_of_cols[cols] = integers(load.lookup);
      ++cols;
    } else if (load.access == Access::tile) {
      if (is_indexed(load)) params.rows_of_tiles[tiles] = integers(load.lookup);
      ++tiles;
    }
  }
  for (const plan::Store& store : step.epilogue.stores) {
    if (store.kind != plan::StoreKind::tile) continue;
    if (store.index >= 0) params.rows_of_stores[stores] = integers(store.value);
    ++stores;
  }
}

}  // namespace epifuse::codegen::sm90
