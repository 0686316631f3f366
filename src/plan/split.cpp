// Splits a fused step into a bare product and a tail.
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

Epilogue bare(const ir::Graph& graph, ValueId matmul) {
  const ir::Node& node = graph[matmul];
  Epilogue epilogue;
  epilogue.has_accumulator = true;
  epilogue.stores.push_back({node.name, matmul, node.type.dtype, StoreKind::tile, 0});
  return epilogue;
}

// Loads of a fused step as a tail of the same values has them: batch dims are not folded there.
std::vector<Load> unfolded(const ir::Graph& graph, const Epilogue& epilogue,
                           const ir::Shape& space) {
  std::vector<Load> loads;
  for (const Load& load : epilogue.loads) loads.push_back(make_load(graph, load.value, space));
  return loads;
}

// The accumulator's slot 0 is now the first load's, so all slots stay as they are.
Epilogue on_memory(const ir::Graph& graph, const Epilogue& fused, ValueId matmul) {
  const ir::Shape& space = graph[matmul].type.shape;
  Epilogue epilogue;
  epilogue.loads = unfolded(graph, fused, space);
  epilogue.loads.insert(epilogue.loads.begin(), make_load(graph, matmul, space));
  epilogue.computes = fused.computes;
  std::copy_if(fused.stores.begin(), fused.stores.end(), std::back_inserter(epilogue.stores),
               [matmul](const Store& store) { return store.value != matmul; });
  return epilogue;
}

}  // namespace

Split split(const Plan& plan, const FusedGemm& step) {
  EPIFUSE_CHECK(step.epilogue.has_accumulator, "a fused step works on the accumulator");
  const ir::Graph& graph = plan.graph;
  const ValueId matmul = step.gemm.matmul;
  Split result;
  result.gemm = {step.gemm, bare(graph, matmul)};
  Epilogue epilogue = on_memory(graph, step.epilogue, matmul);
  if (!epilogue.stores.empty()) {
    result.tail = Tail{graph[matmul].type.shape, std::move(epilogue)};
  }
  const bool is_output =
      std::any_of(graph.outputs.begin(), graph.outputs.end(),
                  [&](const ir::Output& output) { return output.value == matmul; });
  if (!is_output) result.temporary = matmul;
  return result;
}

}  // namespace epifuse::plan
