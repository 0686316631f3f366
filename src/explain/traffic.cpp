// What the steps of a plan move through global memory and multiply, fused and unfused.
#include "explain/traffic.h"

#include <algorithm>

#include "base/check.h"
#include "ir/views.h"

namespace epifuse {
namespace {

using ir::ValueId;
using plan::FusedGemm;
using plan::Plan;
using plan::Step;

double eval(const Dim& dim, const Sizes& sizes) {
  return static_cast<double>(std::max<std::int64_t>(dim.eval(sizes), 0));
}

// Distinct elements: along a dim that it does not vary along, a value is one element.
double num_elements(const ir::Graph& graph, ValueId id, const Sizes& sizes) {
  const ir::Shape& shape = graph[id].type.shape;
  const std::vector<bool> varies = ir::varies(graph, id);
  const std::optional<ir::Lookup> lookup = ir::lookup(graph, id);
  double count = 1;
  for (std::size_t d = 0; d < shape.size(); ++d) {
    if (!varies[d] && !shape[d].is(0)) continue;
    double size = eval(shape[d], sizes);
    if (lookup && lookup->dim == d) {
      const ir::Node& rows = graph[graph[lookup->node].args[0]];
      size = std::min(size, eval(rows.type.shape[0], sizes));
    }
    count *= size;
  }
  return count;
}

Transfer transfer(const ir::Graph& graph, ValueId id, std::string_view access, const Sizes& sizes) {
  const ir::Node& node = graph[id];
  const double bytes =
      num_elements(graph, id, sizes) * static_cast<double>(size_bytes(node.type.dtype));
  return {node.name, node.type.dtype, node.type.shape, access, bytes};
}

void add_product(const Plan& plan, const FusedGemm& step, const Sizes& sizes, StepCost& result) {
  const plan::GemmDesc& gemm = step.gemm;
  for (const ValueId operand : gemm.operands()) {
    result.reads.push_back(transfer(plan.graph, operand, "operand", sizes));
    if (!gemm.is_grouped() || operand == gemm.a.value || !gemm.batch.empty()) continue;
    // Of matrices of groups no more than there are rows.
    const double groups = eval(plan.graph[gemm.groups].type.shape[0], sizes);
    result.reads.back().bytes *= std::min(1.0, eval(gemm.m, sizes) / std::max(groups, 1.0));
  }
  for (const ValueId scales : gemm.scales()) {
    result.reads.push_back(transfer(plan.graph, scales, "block scales", sizes));
  }
  result.dtype = gemm.a.dtype;
  result.flops = 2 * eval(gemm.m, sizes) * eval(gemm.n, sizes) * eval(gemm.k, sizes);
  if (gemm.gating != plan::Gating::none) result.flops *= 2;
  if (gemm.is_k_grouped()) return;  // their parts of K are all of it
  for (const Dim& dim : gemm.batch) result.flops *= eval(dim, sizes);
}

const plan::Epilogue& epilogue_of(const Step& step) {
  return std::visit([](const auto& s) -> const plan::Epilogue& { return s.epilogue; }, step);
}

double sum_bytes(const std::vector<Transfer>& transfers) {
  double bytes = 0;
  for (const Transfer& transfer : transfers) bytes += transfer.bytes;
  return bytes;
}

}  // namespace

double StepCost::bytes() const { return sum_bytes(reads) + sum_bytes(writes); }

StepCost cost(const Plan& plan, const Step& step, const Sizes& sizes) {
  StepCost result;
  if (const auto* gemm = std::get_if<FusedGemm>(&step)) add_product(plan, *gemm, sizes, result);
  const plan::Epilogue& epilogue = epilogue_of(step);
  for (const plan::Load& load : epilogue.loads) {
    Transfer read = transfer(plan.graph, load.value, name(load.access), sizes);
    if (load.access == plan::Access::parameter) read.bytes = 0;
    result.reads.push_back(std::move(read));
  }
  for (const plan::Store& store : epilogue.stores) {
    if (plan::is_second(store.part)) continue;
    result.writes.push_back(transfer(plan.graph, store.value, name(store.kind), sizes));
  }
  return result;
}

std::vector<std::vector<StepCost>> unfused_costs(const Plan& plan, const Sizes& sizes) {
  const Plan unfused =
      plan::make_plan(plan.graph, {plan.numerics, false, plan.allow_tf32}, plan.limits);
  EPIFUSE_CHECK(unfused.graph == plan.graph, "a planned graph needs no further preparation");
  std::vector<const Step*> step_of(plan.graph.nodes.size(), nullptr);
  for (const Step& step : unfused.steps) {
    step_of[static_cast<std::size_t>(epilogue_of(step).stores.front().value)] = &step;
  }
  std::vector<std::vector<StepCost>> result;
  for (const Step& step : plan.steps) {
    result.emplace_back();
    for (ValueId value : computed_values(plan, step)) {
      const Step*& one_op = step_of[static_cast<std::size_t>(value)];
      if (one_op) result.back().push_back(cost(unfused, *one_op, sizes));
      one_op = nullptr;
    }
  }
  return result;
}

}  // namespace epifuse
