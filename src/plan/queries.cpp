// Questions about a finished plan.
#include <algorithm>

#include "plan/facts.h"
#include "plan/plan.h"

namespace epifuse::plan {

using ir::ValueId;

bool reduces_rows(StoreKind kind) {
  return kind == StoreKind::row_sum || kind == StoreKind::row_max;
}

bool reduces_columns(StoreKind kind) {
  return kind == StoreKind::col_sum || kind == StoreKind::col_max;
}

bool reduces(StoreKind kind) { return reduces_rows(kind) || reduces_columns(kind); }

ir::Halves GemmDesc::halves() const {
  if (gating == Gating::halves) return ir::Halves::behind;
  return gating == Gating::interleaved ? ir::Halves::by_turns : ir::Halves::none;
}

std::vector<ValueId> GemmDesc::operands() const {
  if (gating == Gating::separate) return {a.value, b.value, second_b.value};
  return {a.value, b.value};
}

std::vector<ValueId> GemmDesc::scales() const {
  if (!is_scaled()) return {};
  if (gating != Gating::separate) return {a_scales.value, b_scales.value};
  return {a_scales.value, b_scales.value, second_b_scales.value};
}

std::vector<ValueId> GemmDesc::reads() const {
  std::vector<ValueId> all = operands();
  const std::vector<ValueId> of_them = scales();
  all.insert(all.end(), of_them.begin(), of_them.end());
  return all;
}

bool Epilogue::reduces() const {
  return std::any_of(stores.begin(), stores.end(),
                     [](const Store& store) { return plan::reduces(store.kind); });
}

bool Epilogue::has_blocks() const {
  const auto is_block_max = [](const Compute& compute) { return compute.op == ir::Op::block_max; };
  const auto is_block = [](const Store& store) { return store.kind == StoreKind::block_first; };
  return std::any_of(computes.begin(), computes.end(), is_block_max) ||
         std::any_of(stores.begin(), stores.end(), is_block);
}

bool is_bare(const FusedGemm& step) {
  const Epilogue& epilogue = step.epilogue;
  if (step.gemm.gating != Gating::none) return false;
  if (!epilogue.loads.empty() || epilogue.stores.size() != 1) return false;
  const Store& store = epilogue.stores.front();
  if (store.index >= 0) return false;  // rows go elsewhere
  if (store.kind != StoreKind::tile || store.source != epilogue.num_slots() - 1) return false;
  return std::all_of(epilogue.computes.begin(), epilogue.computes.end(),
                     [&store](const Compute& compute) {
                       return compute.op == ir::Op::cast && compute.dtype == store.dtype;
                     });
}

int num_kernels(const Plan& plan) {
  const auto finalized_apart = [](const Step& step) {
    const auto* gemm = std::get_if<FusedGemm>(&step);
    return gemm != nullptr && gemm->epilogue.reduces();
  };
  return static_cast<int>(std::ssize(plan.steps) +
                          std::count_if(plan.steps.begin(), plan.steps.end(), finalized_apart));
}

const Epilogue& Plan::epilogue(std::size_t step) const {
  return std::visit([](const auto& s) -> const Epilogue& { return s.epilogue; }, steps.at(step));
}

std::vector<ValueId> Plan::temporaries() const {
  std::vector<bool> seen(graph.nodes.size());
  for (const ir::Output& output : graph.outputs) seen[index(output.value)] = true;
  std::vector<ValueId> result;
  for (std::size_t i = 0; i < steps.size(); ++i) {
    for (const Store& store : epilogue(i).stores) {
      if (seen[index(store.value)]) continue;
      seen[index(store.value)] = true;
      result.push_back(store.value);
    }
  }
  return result;
}

std::vector<bool> rounded_values(const Plan& plan) {
  std::vector<bool> rounded(plan.graph.nodes.size(), plan.numerics == Numerics::exact);
  for (ValueId value : plan.temporaries()) rounded[index(value)] = true;
  return rounded;
}

std::vector<ValueId> computed_values(const Plan& plan, const Step& step) {
  const auto* gemm = std::get_if<FusedGemm>(&step);
  const Epilogue& epilogue =
      std::visit([](const auto& s) -> const Epilogue& { return s.epilogue; }, step);
  std::vector<ValueId> ends, found;
  for (const Load& load : epilogue.loads) ends.push_back(load.value);
  std::vector<ValueId> open;
  for (const Store& store : epilogue.stores) open.push_back(store.value);
  while (!open.empty()) {
    const ValueId value = open.back();
    open.pop_back();
    const auto is_in = [value](const std::vector<ValueId>& values) {
      return std::find(values.begin(), values.end(), value) != values.end();
    };
    if (is_in(ends) || is_in(found)) continue;
    const bool is_half =
        gemm != nullptr && (value == gemm->gemm.first || value == gemm->gemm.second);
    if (is_half && ir::is_view(plan.graph[value].op)) {
      open.push_back(gemm->gemm.matmul);
      continue;
    }
    if (!is_computed(plan.graph[value].op)) continue;
    found.push_back(value);
    if (ir::is_matmul(plan.graph[value].op)) continue;
    for (ValueId arg : plan.graph[value].args) open.push_back(loaded_value(plan.graph, arg));
  }
  std::sort(found.begin(), found.end());
  return found;
}

}  // namespace epifuse::plan
