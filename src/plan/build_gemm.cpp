// Describes the matrix product of a step: sizes, layouts, and whether batch dims fold into m.
#include <algorithm>

#include "ir/views.h"
#include "plan/access.h"
#include "plan/build.h"

namespace epifuse::plan {
namespace {

using ir::Graph;
using ir::Node;
using ir::Shape;
using ir::ValueId;

// `k_is_last`: in memory order, before `transposed` is applied, the last dim of the operand is k.
Operand make_operand(const Graph& graph, ValueId value, bool transposed, bool k_is_last) {
  const ir::TensorType& type = graph[value].type;
  Operand operand{value, transposed, type.dtype, Major::unknown, false};
  const std::size_t rank = type.shape.size();
  if (const std::optional<int> unit = ir::unit_stride_dim(graph, value)) {
    const auto dim = static_cast<std::size_t>(*unit);
    if (dim + 1 == rank) operand.major = k_is_last ? Major::k : Major::mn;
    if (dim + 2 == rank) operand.major = k_is_last ? Major::mn : Major::k;
  }
  const std::vector<bool> varies = ir::varies(graph, value);
  operand.batched = std::any_of(varies.begin(), varies.end() - 2, [](bool v) { return v; });
  if (const auto lookup = ir::lookup(graph, value)) operand.lookup = lookup->node;
  return operand;
}

// Whether the rows of A's scales are those of one matrix too, and B's the same for all batches.
bool scales_fold(const Graph& graph, const GemmDesc& gemm, const Shape& space) {
  Shape of_a(space.begin(), space.end() - 1);
  of_a.push_back(graph[gemm.a_scales.value].type.shape.back());
  if (!leading_dims_collapse(graph, gemm.a_scales.value, of_a)) return false;
  for (const ValueId scales : {gemm.b_scales.value, gemm.second_b_scales.value}) {
    if (scales < 0) continue;
    const std::vector<bool> varies = ir::varies(graph, scales);
    if (std::any_of(varies.begin(), varies.end() - 2, [](bool v) { return v; })) return false;
  }
  return true;
}

// Rows of all batches as the rows of one product: A [batch.., M, K] is walked by one stride over
// batch and m, B is the same for all, and so is, or does, all that the epilogue reads.
bool folds(const Facts& facts, const GemmDesc& gemm, const Epilogue& epilogue) {
  const Graph& graph = facts.graph;
  const Shape space = plan::space(graph, gemm);
  if (space.size() < 3 || gemm.b.batched || gemm.second_b.batched) return false;
  if (gemm.a.transposed || gemm.has_groups()) return false;
  Shape a_space(space.begin(), space.end() - 1);
  a_space.push_back(gemm.k);
  const std::vector<bool> varies = varies_in(graph, gemm.a.value, a_space);
  for (std::size_t d = 0; d + 1 < space.size(); ++d) {
    if (!varies[d] && !space[d].is(1)) return false;
  }
  if (!leading_dims_collapse(graph, gemm.a.value, a_space)) return false;
  if (gemm.is_scaled() && !scales_fold(graph, gemm, space)) return false;
  for (const Store& store : epilogue.stores) {
    if (reduces_columns(store.kind) || store.index >= 0) return false;  // of each batch
  }
  LoadSet loads(graph, epilogue.num_accumulators, space, true);
  for (const Load& load : epilogue.loads) {
    if (load.lookup >= 0) return false;
    if (load.access != Access::parameter && !leading_dims_collapse(graph, load.value, space)) {
      return false;
    }
    loads.add(load.value);
  }
  return !loads.exceeded(facts.limits);
}

}  // namespace

Shape space(const Graph& graph, const GemmDesc& gemm) {
  Shape shape = graph[gemm.matmul].type.shape;
  shape.back() = gemm.n;
  return shape;
}

FusedGemm build_gemm(const Facts& facts, const StepDraft& draft, Epilogue epilogue) {
  const Graph& graph = facts.graph;
  const Node& node = graph[draft.matmul];
  const Shape& space = draft.space;
  const Shape& a_shape = graph[node.args[0]].type.shape;
  GemmDesc gemm;
  gemm.matmul = draft.matmul;
  gemm.a = make_operand(graph, node.args[0], node.transpose_a, !node.transpose_a);
  gemm.b = make_operand(graph, node.args[1], node.transpose_b, node.transpose_b);
  gemm.batch.assign(space.begin(), space.end() - 2);
  gemm.m = space[space.size() - 2];
  gemm.n = space[space.size() - 1];
  gemm.k = a_shape[a_shape.size() - (node.transpose_a ? 2 : 1)];
  gemm.result = node.type.dtype;
  gemm.promoted = node.promoted;
  if (ir::is_scaled_matmul(node.op)) {
    const ir::BlockScales scales = ir::block_scales(graph, node);
    gemm.promoted = true;
    gemm.a_scales = {scales.a, false};
    gemm.b_scales = {scales.b, !scales.b_by_row};
  }
  if (ir::is_grouped_matmul(node.op)) {
    gemm.groups = ir::index_of(node);
    gemm.num_groups = graph[gemm.b.value].type.shape.front();
  }
  if (node.op == ir::Op::k_grouped_matmul) gemm.k_groups = ir::index_of(node);
  if (draft.gate) {
    gemm.gating = draft.gate->gating;
    gemm.first = draft.gate->first;
    gemm.second = draft.gate->second;
  }
  if (gemm.gating == Gating::separate) {
    const Node& second = graph[gemm.second];
    gemm.second_b = make_operand(graph, second.args[1], second.transpose_b, second.transpose_b);
    if (gemm.is_scaled()) {
      gemm.second_b_scales = {ir::block_scales(graph, second).b, gemm.b_scales.are_shared};
    }
  }
  if (folds(facts, gemm, epilogue)) {
    gemm.flattened = true;
    for (const Dim& dim : gemm.batch) gemm.m = dim * gemm.m;
    gemm.batch.clear();
    gemm.a.batched = false;
    for (Load& load : epilogue.loads) load = make_folded_load(graph, load.value, space);
  }
  return {std::move(gemm), std::move(epilogue)};
}

}  // namespace epifuse::plan
