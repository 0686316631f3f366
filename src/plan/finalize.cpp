// The tail that combines what the tiles of a reducing product give.
//
//   [gemm h; store s = row_sum acc]  ->  .. and over [parts, M]:  [load part of s; store s =
//   col_sum]
#include <fmt/format.h>

#include "base/check.h"
#include "plan/plan.h"

namespace epifuse::plan {
namespace {

using ir::ValueId;

StoreKind over_parts(StoreKind kind) {
  const bool is_sum = kind == StoreKind::row_sum || kind == StoreKind::col_sum;
  return is_sum ? StoreKind::col_sum : StoreKind::col_max;
}

ValueId append(ir::Graph& graph, ir::Op op, std::string name, std::vector<ValueId> args,
               ir::TensorType type) {
  ir::Node node;
  node.op = op;
  node.name = std::move(name);
  node.args = std::move(args);
  node.type = std::move(type);
  graph.nodes.push_back(std::move(node));
  return static_cast<ValueId>(graph.nodes.size()) - 1;
}

}  // namespace

Plan finalize(const FusedGemm& step) {
  EPIFUSE_CHECK(step.epilogue.reduces(), "only what is reduced is finished");
  Plan plan;
  plan.graph.name = "finalize";
  ir::Shape shape;
  for (std::size_t d = 0; d < step.gemm.batch.size(); ++d) {
    shape.push_back(Dim(fmt::format("B{}", d)));
  }
  shape.push_back(Dim("P"));
  shape.push_back(Dim("L"));
  ir::Shape reduced = shape;
  reduced[reduced.size() - 2] = 1;
  Tail tail{shape, {}};
  for (const Store& store : step.epilogue.stores) {
    if (!reduces(store.kind)) continue;
    const auto number = static_cast<int>(tail.epilogue.loads.size());
    const StoreKind kind = over_parts(store.kind);
    const std::string from = fmt::format("parts{}", number), to = fmt::format("result{}", number);
    const ValueId parts =
        append(plan.graph, ir::Op::input, from, {}, ir::TensorType{DType::f32, shape, {}});
    const ValueId result = append(plan.graph, *ir::op_from_name(name(kind)), to, {parts},
                                  ir::TensorType{store.dtype, reduced, {}});
    plan.graph.outputs.push_back({to, result});
    tail.epilogue.loads.push_back({from, parts, DType::f32, Access::tile});
    tail.epilogue.stores.push_back({to, result, store.dtype, kind, number});
  }
  plan.steps.push_back(std::move(tail));
  return plan;
}

}  // namespace epifuse::plan
