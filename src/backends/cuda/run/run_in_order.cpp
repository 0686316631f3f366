// Products behind copies of their operands: of rows of A that are looked up, in order; of
// misaligned rows, aligned; of 8-bit elements along M or N, along K.
#include <fmt/format.h>

#include "backends/cuda/choose/aligned_copies.h"
#include "backends/cuda/run/run_parts.h"
#include "codegen/transpose.h"
#include "ir/views.h"

namespace epifuse::cuda {

using codegen::Bound;
using codegen::BoundTensor;

// A copy of the rows of A that are looked up, then the product of the copy. False where that is not
// one kernel on these tensors.
bool RunBuilder::add_in_order(const plan::Plan& plan, std::size_t index, InOrder& product) {
  const ir::ValueId rows = std::get<plan::FusedGemm>(plan.steps[index]).gemm.a.value;
  const ir::TensorType& type = plan.graph[rows].type;
  const std::vector<std::int64_t> shape = ir::eval(type.shape, bound_.sizes);
  const BoundTensor looked_up = bound_.tensors[static_cast<std::size_t>(rows)];
  const BoundTensor copy =
      dense(take(static_cast<std::size_t>(count(shape)) * size_bytes(type.dtype)), shape);
  bound_.tensors[static_cast<std::size_t>(rows)] = copy;
  const StepChoice choice =
      choose_step(product.prepared, index, product.late, bound_, {rules_.device});
  if (!choice.why_split) {
    plan_.plan.steps.push_back(product.prepared.plan.steps[index]);
    plan_.how.push_back(
        fmt::format("{}, behind a copy of the rows of {}", print(choice), plan.graph[rows].name));
    plan_.grounds.push_back(grounds(choice));
    add_row_copy(plan, plan.graph[ir::lookup(plan.graph, rows)->node], looked_up, copy);
    add_family(product.prepared, index, choice);
  }
  bound_.tensors[static_cast<std::size_t>(rows)] = looked_up;
  return !choice.why_split;
}

// `from`: what `node`, a take_rows, looks up, or a view of it that has its rows.
void RunBuilder::add_row_copy(const plan::Plan& plan, const ir::Node& node, BoundTensor from,
                              const BoundTensor& to) {
  const auto bound_of = [&](ir::ValueId id) -> const BoundTensor& {
    return bound_.tensors[static_cast<std::size_t>(id)];
  };
  const BoundTensor& index = bound_of(ir::index_of(node));
  from.layout.shape[0] = bound_of(node.args.front()).layout.shape[0];
  const DType index_dtype = plan.graph[ir::index_of(node)].type.dtype;
  const Prepared& copy = late_.row_copy(node.type.dtype, index_dtype);
  const auto& tail = std::get<plan::Tail>(copy.plan.steps.front());
  Bound bound;
  bound.sizes = {
      {"S", from.layout.shape[0]}, {"K", from.layout.shape[1]}, {"T", to.layout.shape[0]}};
  bound.tensors.resize(copy.plan.graph.nodes.size());
  bound.tensors[0] = from;
  bound.tensors[1] = index;
  bound.tensors[static_cast<std::size_t>(copy.plan.graph.outputs.front().value)] = to;
  bound.scalars.assign(bound.tensors.size(), 0.0);
  backends::resolve_views(copy.plan, bound);
  add_tail(copy.plan, tail, copy.steps.front(), bound);
}

// The operands along K. Afterwards the copies stand in their place, and they in that of the copies.
void RunBuilder::add_transposes(const StepKernels& kernels, std::vector<AlignedCopy>& copies) {
  for (AlignedCopy& copy : copies) {
    copy.to.data = take(copy.bytes);
    std::swap(bound_[copy.operand], copy.to);
    if (context_ == nullptr) continue;
    add_launch(*kernels.transpose, codegen::transpose_launch(copy.to, bound_[copy.operand]));
  }
}

// Those that read the operands elsewhere, as a residual, read the copies, too.
void RunBuilder::add_behind_copies(const Prepared& prepared, std::size_t index,
                                   const StepChoice& choice) {
  const auto& step = std::get<plan::FusedGemm>(prepared.plan.steps[index]);
  std::vector<AlignedCopy> copies = aligned_copies(step, bound_);
  for (AlignedCopy& copy : copies) {
    copy.to.data = take(copy.bytes);
    const DType dtype = prepared.plan.graph[copy.operand].type.dtype;
    const BoundTensor& from = bound_[copy.operand];
    add_copy(as_copied(from, from), dtype, as_copied(copy.to, from), dtype);
    std::swap(bound_[copy.operand], copy.to);
  }
  StepChoice aligned = choice;
  aligned.sizes = choice.behind_copies->sizes;
  aligned.kernels = choice.behind_copies->kernels;
  aligned.kernel = choice.behind_copies->kernel;
  add_family(prepared, index, aligned);
  for (AlignedCopy& copy : copies) std::swap(bound_[copy.operand], copy.to);
}

}  // namespace epifuse::cuda
