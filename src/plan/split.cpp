// Splits a fused step into bare products and a tail.
//
//   [gemm h; t = add acc, b; store y = t]  ->  [gemm h; store h = acc]  [load h, b; t = add h, b;
//   ..]
#include <algorithm>

#include "base/check.h"
#include "plan/access.h"
#include "plan/plan.h"

namespace epifuse::plan {
namespace {

using ir::ValueId;

FusedGemm bare(const ir::Graph& graph, const GemmDesc& gated, ValueId matmul) {
  const ir::Node& node = graph[matmul];
  FusedGemm step;
  step.gemm = gated;
  step.gemm.matmul = matmul;
  if (matmul == gated.second) step.gemm.b = gated.second_b;
  if (matmul == gated.second) step.gemm.b_scales = gated.second_b_scales;
  step.gemm.n = node.type.shape.back();
  step.gemm.gating = Gating::none;
  step.gemm.first = step.gemm.second = -1;
  step.gemm.second_b = {-1};
  step.gemm.second_b_scales = {};
  step.epilogue.num_accumulators = 1;
  step.epilogue.stores.push_back({node.name, matmul, node.type.dtype, StoreKind::tile, 0});
  return step;
}

// Where a tail finds what the accumulators hold, in the order of their slots.
std::vector<ValueId> accumulated(const GemmDesc& gemm) {
  if (gemm.gating == Gating::none) return {gemm.matmul};
  return {gemm.first, gemm.second};
}

// The accumulators' slots are now those of the first loads, so all slots stay as they are. Batch
// dims are not folded in a tail.
Epilogue on_memory(const ir::Graph& graph, const FusedGemm& fused, const ir::Shape& space,
                   const std::vector<ValueId>& matmuls) {
  Epilogue epilogue;
  for (ValueId value : accumulated(fused.gemm)) {
    epilogue.loads.push_back(make_load(graph, value, space));
  }
  for (const Load& load : fused.epilogue.loads) {
    epilogue.loads.push_back(make_load(graph, load.value, space));
  }
  epilogue.block_rows = fused.epilogue.block_rows;
  epilogue.computes = fused.epilogue.computes;
  for (const Store& store : fused.epilogue.stores) {
    const bool is_product = std::find(matmuls.begin(), matmuls.end(), store.value) != matmuls.end();
    if (!is_product) epilogue.stores.push_back(store);
  }
  return epilogue;
}

}  // namespace

Split split(const Plan& plan, const FusedGemm& step) {
  EPIFUSE_CHECK(step.epilogue.has_accumulator(), "a fused step works on the accumulator");
  const ir::Graph& graph = plan.graph;
  std::vector<ValueId> matmuls{step.gemm.matmul};
  if (step.gemm.gating == Gating::separate) matmuls.push_back(step.gemm.second);
  Split result;
  for (ValueId matmul : matmuls) result.gemms.push_back(bare(graph, step.gemm, matmul));
  const ir::Shape shape = space(graph, step.gemm);
  Epilogue epilogue = on_memory(graph, step, shape, matmuls);
  if (!epilogue.stores.empty()) result.tail = Tail{shape, std::move(epilogue)};
  return result;
}

}  // namespace epifuse::plan
