// Groups of rows, and rows that are looked up, as kernels of products take them.
#include "codegen/row_groups.h"

#include <fmt/format.h>

#include <algorithm>

#include "codegen/integers.h"
#include "ir/views.h"
#include "plan/limits.h"
#include "plan/reasons.h"

namespace epifuse::codegen {
namespace {

using plan::Access;
using plan::FusedGemm;
using plan::WhyNot;

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
  const bool is_one_row = graph[load.value].type.shape[rank - 2].is(1);
  if (is_one_row && !load.by_group) {  // it would be read as a row vector, which has no index
    return no("is one row that is looked up, which this family does not read.");
  }
  return std::nullopt;
}

// What is repeated for groups takes room among row vectors and scalars.
std::optional<WhyNot> why_not_room(const FusedGemm& step) {
  const auto& loads = step.epilogue.loads;
  if (std::ranges::none_of(loads, [](const auto& load) { return load.by_group; })) {
    return std::nullopt;
  }
  const FusedGemm compiled = by_product(step);
  const auto exceeded = plan::exceeded(plan::demand_of(compiled.epilogue), targets::kBlockLimits);
  if (!exceeded) return std::nullopt;
  const plan::ReasonInfo& reason = plan::all_reasons()[static_cast<std::size_t>(*exceeded)];
  return WhyNot{std::string(reason.code),
                fmt::format("what is repeated for groups is loaded as row vectors and scalars, and "
                            "the epilogue has more than {} of one of these.",
                            reason.limit(targets::kBlockLimits))};
}

}  // namespace

std::optional<WhyNot> why_not_rows_by_index(const plan::Plan& plan, const FusedGemm& step) {
  const plan::GemmDesc& gemm = step.gemm;
  for (const plan::Load& load : step.epilogue.loads) {
    if (load.lookup < 0) continue;
    if (auto no = why_not_lookup(plan, gemm, load)) return no;
  }
  if (auto no = why_not_room(step)) return no;
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

FusedGemm by_product(FusedGemm step) {
  for (plan::Load& load : step.epilogue.loads) {
    if (!load.by_group) continue;
    load.access =
        load.access == Access::tile || load.access == Access::row ? Access::row : Access::scalar;
    load.batched = true;
  }
  return step;
}

void bind_integers(const plan::Plan& plan, const FusedGemm& step, const EpilogueLayout& layout,
                   const Bound& bound, abi::GemmParams& params) {
  const auto integers = [&](ir::ValueId node) {
    return kernel_integers(plan.graph, plan.graph[node], bound);
  };
  if (step.gemm.has_groups()) params.groups = integers(step.gemm.matmul);
  if (step.gemm.a.lookup >= 0) params.rows_of_a = integers(step.gemm.a.lookup);
  const plan::Epilogue& epilogue = step.epilogue;
  const auto bind = [&](const Place& place, ir::ValueId node) {
    if (!place.is_indexed) return;
    entry_at<abi::Integers>(params, place.integers_offset) = integers(node);
  };
  for (std::size_t i = 0; i < epilogue.loads.size(); ++i) {
    bind(layout.loads()[i], epilogue.loads[i].lookup);
  }
  for (std::size_t i = 0; i < epilogue.stores.size(); ++i) {
    bind(layout.stores()[i], epilogue.stores[i].value);
  }
}

}  // namespace epifuse::codegen
