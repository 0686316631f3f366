// The rows and columns a step works on, and its operands seen over them.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "codegen/bound.h"
#include "epifuse/dtype.h"

namespace epifuse::cpu {

// One tensor over a grid: element (row, column) lies at data + offset(row) + column *
// column_stride. Of a dim that is looked up, which may be the columns, index i stands for rows[i].
struct Operand {
  char* data = nullptr;
  DType dtype = DType::f32;
  std::vector<std::int64_t> row_strides;  // one per dim of Grid::row_dims, 0 where it repeats
  std::int64_t column_stride = 0;
  std::shared_ptr<const std::vector<std::int64_t>> rows;  // null: none is looked up
  std::size_t looked_up_dim = 0;                          // among row_dims, or behind them

  bool looks_up_columns() const { return rows && looked_up_dim == row_strides.size(); }
  char* at(std::int64_t offset) const {
    return data + offset * static_cast<std::int64_t>(size_bytes(dtype));
  }
};

// Rows are all dims but the last, in row-major order. Reductions along rows stay within a batch.
struct Grid {
  std::vector<std::int64_t> row_dims;
  std::int64_t num_batches = 1;  // rows = num_batches * m
  std::int64_t m = 1;
  std::int64_t n = 1;
  std::int64_t num_rows() const { return num_batches * m; }
};

// The grid of a shape: its last two dims are m and n, those before are batches.
Grid make_grid(const std::vector<std::int64_t>& shape);
// `tensor` broadcast to `shape` (aligned at the right, size 1 repeats), over make_grid(shape).
Operand make_operand(const codegen::BoundTensor& tensor, DType dtype,
                     const std::vector<std::int64_t>& shape);
// Lets dim `dim` of the shape that `operand` was made for, a dim of `stride` elements, be looked
// up.
void look_up(Operand& operand, std::size_t dim, std::int64_t stride,
             std::vector<std::int64_t> rows);
// Offsets in elements of rows first, first + 1, ...: one for each entry of `out`.
void row_offsets(const Grid& grid, const Operand& operand, std::int64_t first,
                 std::span<std::int64_t> out);

// Merges row dims that every operand walks through without a gap; rows keep their numbers. Where an
// operand looks rows up, nothing is merged.
void coalesce_rows(Grid& grid, std::span<Operand* const> operands);
// Makes columns of the innermost row dim where every operand walks through both without a gap.
// After coalesce_rows, for a grid of one batch. Not where an operand looks rows up.
void coalesce_columns(Grid& grid, std::span<Operand* const> operands);

}  // namespace epifuse::cpu
