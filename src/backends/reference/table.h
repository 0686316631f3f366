// The rows of one graph value: memory that is read in place, or intervals that were computed.
#pragma once

#include <cstdint>
#include <vector>

#include "backends/reference/interval.h"
#include "base/float_types.h"
#include "codegen/bound.h"

namespace epifuse::reference {

// One row: every element of the last dim, the others fixed.
class Row {
 public:
  explicit Row(const Interval* cells) : cells_(cells) {}
  Row(const void* data, DType dtype, std::int64_t offset, std::int64_t stride)
      : data_(data), dtype_(dtype), offset_(offset), stride_(stride) {}
  Interval operator[](std::int64_t col) const {
    if (cells_ != nullptr) return cells_[col];
    return exactly(load_element(data_, dtype_, offset_ + col * stride_));
  }

 private:
  const Interval* cells_ = nullptr;
  const void* data_ = nullptr;
  DType dtype_ = DType::f32;
  std::int64_t offset_ = 0, stride_ = 0;
};

// Rows are numbered in row-major order of all dims but the last; a 0-d value has one row of one
// element. A computed table holds only the rows that were required of it.
class Table {
 public:
  explicit Table(std::vector<std::int64_t> shape);
  // Memory seen through a layout, with exact elements.
  Table(const void* data, DType dtype, ir::Layout layout);

  const std::vector<std::int64_t>& shape() const { return shape_; }
  std::int64_t num_rows() const { return num_rows_; }
  std::int64_t num_cols() const { return num_cols_; }
  bool in_memory() const { return in_memory_; }

  // First which rows are needed, then their memory, then their cells, then release.
  void require(std::int64_t row);
  void require_all();
  const std::vector<std::int64_t>& required();  // sorted
  void allocate();
  void release();
  Interval* cells(std::int64_t row);

  Row row(std::int64_t row) const;

 private:
  std::vector<std::int64_t> shape_;
  std::int64_t num_rows_ = 1, num_cols_ = 1;
  bool in_memory_ = false;
  // In memory.
  const void* data_ = nullptr;
  DType dtype_ = DType::f32;
  ir::Layout layout_;
  // Computed.
  std::vector<bool> is_required_;
  std::vector<std::int64_t> required_;
  std::vector<std::int32_t> slots_;  // of each row, among the required ones
  std::vector<Interval> cells_;
};

// The row of an operand of shape `from` that elementwise broadcasting reads for row `row` of `to`.
std::int64_t broadcast_row(const std::vector<std::int64_t>& to, std::int64_t row,
                           const std::vector<std::int64_t>& from);

}  // namespace epifuse::reference
