// Steps that may run side by side in one launch.
#include "codegen/side_by_side.h"

#include <algorithm>
#include <string>

#include "codegen/epilogue_cuda.h"
#include "codegen/k_major_copies.h"
#include "ir/views.h"

namespace epifuse::codegen {
namespace {

using plan::FusedGemm;

// What is read element by element may be overwritten in place by the step that reads it last.
bool may_run_beside_others(const FusedGemm& step) {
  const auto is_tile = [](const plan::Load& load) { return load.access == plan::Access::tile; };
  return step.gemm.gating == plan::Gating::none && !step.gemm.has_groups() &&
         !has_k_major_copies(step.gemm) && !step.epilogue.reduces() &&
         std::ranges::none_of(step.epilogue.loads, is_tile);
}

// Whether its whole result may be bound to the memory of what is loaded: of a single row, or a
// single column, that is as large.
bool may_be_written(const plan::Plan& plan, const plan::Load& load, const FusedGemm& step) {
  return std::ranges::any_of(step.epilogue.stores, [&](const plan::Store& store) {
    return size_bytes(plan.graph[store.value].type.dtype) == size_bytes(load.dtype);
  });
}

// Whether one reads what the other stores, or what both load may be written in place.
bool meet(const plan::Plan& plan, const FusedGemm& step, const FusedGemm& earlier) {
  const auto is_same = [&](ir::ValueId x, ir::ValueId y) {
    return ir::storage(plan.graph, x) == ir::storage(plan.graph, y);
  };
  const auto is_stored = [&](ir::ValueId id) {
    return std::ranges::any_of(earlier.epilogue.stores,
                               [&](const plan::Store& store) { return is_same(store.value, id); });
  };
  const auto meets = [&](const plan::Load& load) {
    return is_stored(load.value) ||
           std::ranges::any_of(earlier.epilogue.loads, [&](const plan::Load& other) {
             return is_same(load.value, other.value) && may_be_written(plan, load, step);
           });
  };
  return std::ranges::any_of(step.gemm.reads(), is_stored) ||
         std::ranges::any_of(step.epilogue.loads, meets);
}

// Its text, without the names of what it reads and writes.
std::string nameless(plan::Epilogue epilogue, Numerics numerics) {
  for (plan::Load& load : epilogue.loads) load.name.clear();
  for (plan::Store& store : epilogue.stores) store.name.clear();
  return epilogue_cuda(epilogue, numerics);
}

}  // namespace

bool multiply_alike(const plan::GemmDesc& x, const plan::GemmDesc& y) {
  return x.a.value == y.a.value && x.a.transposed == y.a.transposed && x.a.lookup == y.a.lookup &&
         x.b.dtype == y.b.dtype && x.b.major == y.b.major && x.m == y.m && x.k == y.k &&
         x.batch == y.batch && x.promoted == y.promoted && x.a_scales == y.a_scales &&
         x.b_scales.are_shared == y.b_scales.are_shared;
}

std::vector<StepRange> side_by_side(const plan::Plan& plan, std::size_t most) {
  std::vector<StepRange> out;
  const auto gemm = [&](std::size_t i) { return std::get_if<FusedGemm>(&plan.steps[i]); };
  for (std::size_t first = 0; first + 1 < plan.steps.size(); ++first) {
    const FusedGemm* const leader = gemm(first);
    if (leader == nullptr || !may_run_beside_others(*leader)) continue;
    std::string epilogue;
    std::size_t end = first + 1;
    for (; end < plan.steps.size() && end - first < most; ++end) {
      const FusedGemm* const next = gemm(end);
      if (next == nullptr || !may_run_beside_others(*next)) break;
      if (!multiply_alike(leader->gemm, next->gemm)) break;
      bool is_apart = true;
      for (std::size_t i = first; i < end; ++i) is_apart &= !meet(plan, *next, *gemm(i));
      if (!is_apart) break;
      if (epilogue.empty()) epilogue = nameless(leader->epilogue, plan.numerics);
      if (nameless(next->epilogue, plan.numerics) != epilogue) break;
    }
    if (end - first < 2) continue;
    out.push_back({first, end - first});
    first = end - 1;
  }
  return out;
}

const KernelFamily* family_side_by_side(const targets::TargetInfo& target, std::string_view name) {
  if (target.kind != DeviceKind::cuda) return nullptr;
  const std::vector<const KernelFamily*> families = families_for(target, name);
  const auto found = std::ranges::find_if(
      families, [](const KernelFamily* family) { return family->side_by_side != nullptr; });
  return found == families.end() ? nullptr : *found;
}

const SideBySideKind* kind_side_by_side(const KernelFamily& family, const FusedGemm& step,
                                        const targets::TargetInfo& target, std::int64_t rows) {
  const auto& kinds = family.side_by_side->kinds;
  const auto found = std::ranges::find_if(kinds, [&](const SideBySideKind& kind) {
    return rows <= kind.most_rows && !kind.configs(step, target).empty();
  });
  return found == kinds.end() ? nullptr : &*found;
}

std::vector<StepRange> side_by_side(const plan::Plan& plan, const KernelFamily& family,
                                    const targets::TargetInfo& target,
                                    std::optional<std::int64_t> rows) {
  const std::int64_t known_rows = rows.value_or(0);  // any kind takes as few
  const auto is_refused = [&](const plan::Step& step) {
    const auto& gemm = std::get<FusedGemm>(step);
    return family.why_not(plan, gemm, target) ||
           kind_side_by_side(family, gemm, target, known_rows) == nullptr;
  };
  std::vector<StepRange> out = side_by_side(plan, family.side_by_side->most);
  std::erase_if(out, [&](const StepRange& range) {
    return std::ranges::any_of(std::span(plan.steps).subspan(range.first, range.count), is_refused);
  });
  return out;
}

}  // namespace epifuse::codegen
