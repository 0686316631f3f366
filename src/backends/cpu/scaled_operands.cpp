#include "backends/cpu/scaled_operands.h"

#include <algorithm>
#include <array>
#include <utility>

#include "backends/cpu/threads.h"
#include "backends/rows.h"
#include "base/float_types.h"
#include "epifuse/tensor.h"

namespace epifuse::cpu {
namespace {

using Strides = std::vector<std::int64_t>;

// The values of all 8-bit numbers of a format.
std::array<float, 256> table_of(DType dtype) {
  std::array<unsigned char, 256> bytes;
  std::array<float, 256> values;
  for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<unsigned char>(i);
  for (std::size_t i = 0; i < values.size(); ++i) {
    values[i] = static_cast<float>(load_element(bytes.data(), dtype, static_cast<std::int64_t>(i)));
  }
  return values;
}

// Where row `row` of all batches starts; its scales where `rows_each` rows share one.
std::int64_t offset_of(const ir::Layout& layout, const Strides& shape, std::int64_t row,
                       std::int64_t rows_each) {
  const std::size_t rank = shape.size();
  const std::int64_t in_matrix = row % shape[rank - 2];
  std::int64_t offset = layout.offset + in_matrix / rows_each * layout.strides[rank - 2];
  row /= shape[rank - 2];
  for (std::size_t d = rank - 2; d-- > 0;) {
    offset += row % shape[d] * layout.strides[d];
    row /= shape[d];
  }
  return offset;
}

void swap_last_two(std::vector<std::int64_t>& dims) {
  std::swap(dims[dims.size() - 1], dims[dims.size() - 2]);
}

}  // namespace

ScaledOperands::ScaledOperands(const ir::Graph& graph, const plan::FusedGemm& scaled,
                               const codegen::Bound& from, BufferPool& pool)
    : step(scaled), bound(from) {
  plan::GemmDesc& gemm = step.gemm;
  copy(graph, gemm.a, !gemm.a.transposed, gemm.a_scales, pool);
  copy(graph, gemm.b, gemm.b.transposed, gemm.b_scales, pool);
  if (gemm.gating == plan::Gating::separate) {
    copy(graph, gemm.second_b, gemm.second_b.transposed, gemm.second_b_scales, pool);
  }
  gemm.a_scales = gemm.b_scales = gemm.second_b_scales = {};
}

// Rows that are looked up lie in order in the copy, as their scales do.
void ScaledOperands::copy(const ir::Graph& graph, plan::Operand& operand, bool k_is_last,
                          const plan::OperandScales& scales, BufferPool& pool) {
  codegen::BoundTensor tensor = bound[operand.value];
  std::vector<std::int64_t> looked_up;
  if (operand.lookup >= 0)
    looked_up = backends::looked_up_rows(graph, graph[operand.lookup], bound);
  ir::Layout& layout = tensor.layout;
  if (!k_is_last) {
    swap_last_two(layout.shape);
    swap_last_two(layout.strides);
  }
  const codegen::BoundTensor& of_blocks = bound[scales.value];
  const auto* bytes = static_cast<const unsigned char*>(tensor.data);
  const auto* factors = static_cast<const float*>(of_blocks.data);
  const std::int64_t k = layout.shape.back(), rows_each = scales.are_shared ? ir::kScaleBlock : 1;
  std::int64_t num_rows = 1;
  for (std::size_t d = 0; d + 1 < layout.shape.size(); ++d) num_rows *= layout.shape[d];
  buffers_.push_back(pool.borrow(static_cast<std::size_t>(num_rows * k) * sizeof(float)));
  float* const out = buffers_.back().floats();
  const std::array<float, 256> values = table_of(operand.dtype);
  const std::int64_t stride = layout.strides.back();
  const std::int64_t stride_of_blocks = of_blocks.layout.strides.back();
  const auto run_row = [&](std::int64_t row, int) {
    const std::int64_t start =
        looked_up.empty()
            ? offset_of(layout, layout.shape, row, 1)
            : layout.offset + looked_up[static_cast<std::size_t>(row)] * layout.strides.front();
    const unsigned char* const from = bytes + start;
    const float* const scale = factors + offset_of(of_blocks.layout, layout.shape, row, rows_each);
    for (std::int64_t i = 0; i < k; ++i) {
      out[row * k + i] = values[from[i * stride]] * scale[i / ir::kScaleBlock * stride_of_blocks];
    }
  };
  if (k > 0) run_units(num_rows, workers_for(static_cast<double>(num_rows * k)), run_row);
  layout.offset = 0;
  layout.strides = TensorView::dense_strides(layout.shape);
  if (!k_is_last) {
    swap_last_two(layout.shape);
    swap_last_two(layout.strides);
  }
  tensor.data = out;
  bound.tensors.push_back(std::move(tensor));
  operand.value = static_cast<ir::ValueId>(bound.tensors.size()) - 1;
  operand.dtype = DType::f32;
  operand.lookup = -1;
}

}  // namespace epifuse::cpu
