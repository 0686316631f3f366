// Groups of rows, and rows that are looked up, as the Hopper GEMM takes them.
//
// A row for each group, repeated for the group's rows, is to a tile what a row of each product of a
// batch is: repeat_rows of b[g, n] is row b[group, n], of e[g, 1] the scalar e[group].
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "codegen/integers.h"
#include "codegen/sm90/dense.h"
#include "ir/views.h"
#include "plan/limits.h"
#include "plan/reasons.h"

namespace epifuse::codegen::sm90 {
namespace {

using plan::Access;
using plan::FusedGemm;
using plan::WhyNot;

constexpr std::size_t kGatheredBytes = 2;  // an element, of kernels/sm90/gather.cuh

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
  const FusedGemm compiled = as_compiled(step, {.unpaired = true});
  const auto exceeded = plan::exceeded(plan::demand_of(compiled.epilogue), targets::kBlockLimits);
  if (!exceeded) return std::nullopt;
  const plan::ReasonInfo& reason = plan::all_reasons()[static_cast<std::size_t>(*exceeded)];
  return WhyNot{std::string(reason.code),
                fmt::format("what is repeated for groups is loaded as row vectors and scalars, and "
                            "the epilogue has more than {} of one of these.",
                            reason.limit(targets::kBlockLimits))};
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

FusedGemm as_compiled(FusedGemm step, const Variant& variant) {
  for (plan::Load& load : step.epilogue.loads) {
    if (!load.by_group) continue;
    load.access =
        load.access == Access::tile || load.access == Access::row ? Access::row : Access::scalar;
    load.batched = true;
  }
  return paired(std::move(step), variant);
}

void bind_integers(const plan::Plan& plan, const FusedGemm& step, const EpilogueLayout& layout,
                   const Bound& bound, abi::GemmParams& params) {
  const auto integers = [&](ir::ValueId node) {
    return kernel_integers(plan.graph, plan.graph[node], bound);
  };
  if (step.gemm.is_grouped()) params.groups = integers(step.gemm.matmul);
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

}  // namespace epifuse::codegen::sm90
