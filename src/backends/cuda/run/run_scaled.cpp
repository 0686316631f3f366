// Operands of 8 bits whose blocks have scales, where no family multiplies them: float32 copies with
// their scales, for a product that knows of none.
#include <algorithm>
#include <utility>

#include "backends/cuda/run/run_parts.h"
#include "kernels/abi.h"

namespace epifuse::cuda {
namespace {

using codegen::BoundTensor;

void swap_last_two(ir::Layout& layout) {
  const std::size_t rank = layout.shape.size();
  std::swap(layout.shape[rank - 1], layout.shape[rank - 2]);
  std::swap(layout.strides[rank - 1], layout.strides[rank - 2]);
}

// Part of a dim of an operand: `count` elements from `first` on, in blocks of `each`, of which
// `block` is the first one's number.
struct Run {
  std::int64_t first, count, each, block;
};
// Whole blocks, then what is left.
std::vector<Run> runs_of(std::int64_t size, std::int64_t each) {
  const std::int64_t whole = size / each * each;
  std::vector<Run> runs;
  if (whole > 0) runs.push_back({0, whole, each, 0});
  if (whole < size) runs.push_back({whole, size - whole, size - whole, whole / each});
  return runs;
}

// The runs of the last two dims of an operand as four dims, blocks and elements of one; of its
// scales, which repeat for all elements of a block.
ir::Layout piece(const ir::Layout& from, const Run& rows, const Run& k, bool is_scales) {
  const std::size_t rank = from.shape.size();
  ir::Layout out = from;
  out.shape.resize(rank - 2);
  out.strides.resize(rank - 2);
  for (const auto& [run, stride] :
       {std::pair(rows, from.strides[rank - 2]), std::pair(k, from.strides[rank - 1])}) {
    out.offset += (is_scales ? run.block : run.first) * stride;
    out.shape.insert(out.shape.end(), {run.count / run.each, run.each});
    out.strides.insert(out.strides.end(),
                       {is_scales ? stride : run.each * stride, is_scales ? 0 : stride});
  }
  return out;
}

ir::Layout without_first_dim(ir::Layout layout, std::int64_t index) {
  layout.offset += index * layout.strides.front();
  layout.shape.erase(layout.shape.begin());
  layout.strides.erase(layout.strides.begin());
  return layout;
}

}  // namespace

// One launch, but for more dims than a kernel has.
void RunBuilder::add_scaled_copy(const BoundTensor& from, DType dtype, const BoundTensor& scales,
                                 const BoundTensor& to) {
  const std::vector<std::int64_t>& shape = to.layout.shape;
  if (shape.size() > static_cast<std::size_t>(abi::kMaxRank)) {
    for (std::int64_t i = 0; i < shape.front(); ++i) {
      add_scaled_copy({from.data, without_first_dim(from.layout, i)}, dtype,
                      {scales.data, without_first_dim(scales.layout, i)},
                      {to.data, without_first_dim(to.layout, i)});
    }
    return;
  }
  const Prepared& copy = late_.scaled_copy(dtype, shape.size());
  const auto& tail = std::get<plan::Tail>(copy.plan.steps.front());
  codegen::Bound bound;
  for (std::size_t d = 0; d < shape.size(); ++d) bound.sizes[*tail.shape[d].symbol()] = shape[d];
  bound.tensors.resize(copy.plan.graph.nodes.size());
  bound.scalars.resize(copy.plan.graph.nodes.size());
  bound.tensors[0] = from;
  bound.tensors[1] = scales;
  bound.tensors.back() = to;
  add_tail(copy.plan, tail, copy.steps.front(), bound);
}

void RunBuilder::scale(plan::Operand& operand, bool k_is_last, const plan::OperandScales& scales) {
  BoundTensor from = bound_[operand.value];
  const BoundTensor of_blocks = bound_[scales.value];
  if (!k_is_last) swap_last_two(from.layout);
  BoundTensor to = dense(take(static_cast<std::size_t>(count(from.layout.shape)) * sizeof(float)),
                         from.layout.shape);
  const std::size_t rank = from.layout.shape.size();
  const std::int64_t each = scales.are_shared ? ir::kScaleBlock : 1;
  for (const Run& rows : runs_of(from.layout.shape[rank - 2], each)) {
    for (const Run& k : runs_of(from.layout.shape[rank - 1], ir::kScaleBlock)) {
      add_scaled_copy({from.data, piece(from.layout, rows, k, false)}, operand.dtype,
                      {of_blocks.data, piece(of_blocks.layout, rows, k, true)},
                      {to.data, piece(to.layout, rows, k, false)});
    }
  }
  if (!k_is_last) swap_last_two(to.layout);
  bound_.tensors.push_back(std::move(to));
  operand.value = static_cast<ir::ValueId>(bound_.tensors.size()) - 1;
  operand.dtype = DType::f32;
}

// Scales are those of the rows in order, so rows that are looked up are copied first.
void RunBuilder::put_in_order(const plan::Plan& plan, plan::Operand& operand) {
  const BoundTensor from = bound_[operand.value];
  const auto bytes = static_cast<std::size_t>(count(from.layout.shape));
  BoundTensor to = dense(take(bytes * size_bytes(operand.dtype)), from.layout.shape);
  add_row_copy(plan, plan.graph[operand.lookup], from, to);
  bound_.tensors.push_back(std::move(to));
  operand.value = static_cast<ir::ValueId>(bound_.tensors.size()) - 1;
  operand.lookup = -1;
}

plan::FusedGemm RunBuilder::on_scaled_copies(const plan::Plan& plan, plan::FusedGemm bare) {
  plan::GemmDesc& gemm = bare.gemm;
  if (!gemm.is_scaled()) return bare;
  if (gemm.a.lookup >= 0) put_in_order(plan, gemm.a);
  scale(gemm.a, !gemm.a.transposed, gemm.a_scales);
  scale(gemm.b, gemm.b.transposed, gemm.b_scales);
  gemm.a_scales = gemm.b_scales = {};
  return bare;
}

}  // namespace epifuse::cuda
