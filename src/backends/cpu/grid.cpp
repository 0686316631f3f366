// Grids: broadcasting, offsets, merging of dims.
#include "backends/cpu/grid.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "base/strided.h"

namespace epifuse::cpu {
namespace {

bool any_looks_up(std::span<Operand* const> operands) {
  return std::any_of(operands.begin(), operands.end(),
                     [](const Operand* operand) { return operand->rows != nullptr; });
}

std::int64_t looked_up_offset(const Grid& grid, const Operand& operand, std::int64_t row) {
  std::int64_t offset = 0;
  for (std::size_t d = grid.row_dims.size(); d-- > 0;) {
    const std::int64_t size = std::max<std::int64_t>(grid.row_dims[d], 1);
    std::int64_t index = row % size;
    row /= size;
    if (d == operand.looked_up_dim) index = (*operand.rows)[static_cast<std::size_t>(index)];
    offset += index * operand.row_strides[d];
  }
  return offset;
}

std::vector<std::vector<std::int64_t>*> row_strides_of(std::span<Operand* const> operands) {
  std::vector<std::vector<std::int64_t>*> all;
  for (Operand* operand : operands) all.push_back(&operand->row_strides);
  return all;
}

}  // namespace

Grid make_grid(const std::vector<std::int64_t>& shape) {
  Grid grid;
  if (shape.empty()) return grid;
  grid.n = shape.back();
  grid.row_dims.assign(shape.begin(), shape.end() - 1);
  if (grid.row_dims.empty()) return grid;
  grid.m = grid.row_dims.back();
  grid.num_batches = std::accumulate(grid.row_dims.begin(), grid.row_dims.end() - 1,
                                     std::int64_t{1}, std::multiplies<>());
  return grid;
}

Operand make_operand(const codegen::BoundTensor& tensor, DType dtype,
                     const std::vector<std::int64_t>& shape) {
  const ir::Layout& layout = tensor.layout;
  std::vector<std::int64_t> strides = ir::strides_over(layout, shape);
  Operand operand;
  operand.dtype = dtype;
  operand.data = static_cast<char*>(tensor.data);
  if (operand.data != nullptr) operand.data = operand.at(layout.offset);
  if (shape.empty()) return operand;
  operand.column_stride = strides.back();
  strides.pop_back();
  operand.row_strides = std::move(strides);
  return operand;
}

void look_up(Operand& operand, std::size_t dim, std::int64_t stride,
             std::vector<std::int64_t> rows) {
  if (rows.size() == 1) {  // its stride here is 0, as that of any dim of size 1
    operand.data = operand.at(rows.front() * stride);
    return;
  }
  operand.looked_up_dim = dim;
  operand.rows = std::make_shared<const std::vector<std::int64_t>>(std::move(rows));
}

void row_offsets(const Grid& grid, const Operand& operand, std::int64_t first,
                 std::span<std::int64_t> out) {
  if (operand.rows && !operand.looks_up_columns()) {
    for (std::int64_t& offset : out) offset = looked_up_offset(grid, operand, first++);
    return;
  }
  const std::size_t rank = grid.row_dims.size();
  std::int64_t row = first;
  for (std::size_t done = 0; done < out.size();) {
    // The offset of `row`, then straight on to the end of its innermost dim.
    std::int64_t offset = 0;
    std::int64_t rest = row;
    std::int64_t run = 1;
    for (std::size_t d = rank; d-- > 0;) {
      const std::int64_t size = std::max<std::int64_t>(grid.row_dims[d], 1);
      const std::int64_t index = rest % size;
      rest /= size;
      offset += index * operand.row_strides[d];
      if (d == rank - 1) run = size - index;
    }
    const std::int64_t step = rank > 0 ? operand.row_strides.back() : 0;
    const auto count = std::min<std::int64_t>(run, static_cast<std::int64_t>(out.size() - done));
    for (std::int64_t i = 0; i < count; ++i) out[done++] = offset + i * step;
    row += count;
  }
}

void coalesce_rows(Grid& grid, std::span<Operand* const> operands) {
  if (!any_looks_up(operands)) join_dims(grid.row_dims, row_strides_of(operands));
}

void coalesce_columns(Grid& grid, std::span<Operand* const> operands) {
  if (grid.row_dims.empty() || any_looks_up(operands)) return;
  const auto continues = [&grid](const Operand* operand) {
    return operand->row_strides.back() == operand->column_stride * grid.n;
  };
  if (grid.n == 1) {
    for (Operand* operand : operands) operand->column_stride = operand->row_strides.back();
  } else if (!std::all_of(operands.begin(), operands.end(), continues)) {
    return;
  }
  grid.n *= grid.row_dims.back();
  erase_dim(grid.row_dims, row_strides_of(operands), grid.row_dims.size() - 1);
  grid.m = std::accumulate(grid.row_dims.begin(), grid.row_dims.end(), std::int64_t{1},
                           std::multiplies<>());
}

}  // namespace epifuse::cpu
