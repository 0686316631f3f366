// Tables: which rows are needed, where they are, and how rows of operands correspond.
#include "backends/reference/table.h"

#include "base/check.h"

namespace epifuse::reference {

Table::Table(std::vector<std::int64_t> shape) : shape_(std::move(shape)) {
  for (std::size_t d = 0; d + 1 < shape_.size(); ++d) num_rows_ *= shape_[d];
  if (!shape_.empty()) num_cols_ = shape_.back();
  is_required_.assign(static_cast<std::size_t>(num_rows_), false);
}

Table::Table(const void* data, DType dtype, ir::Layout layout) : Table(layout.shape) {
  is_required_.clear();
  in_memory_ = true;
  data_ = data;
  dtype_ = dtype;
  layout_ = std::move(layout);
}

void Table::require(std::int64_t row) {
  if (!in_memory_) is_required_[static_cast<std::size_t>(row)] = true;
}

void Table::require_all() {
  if (!in_memory_) is_required_.assign(static_cast<std::size_t>(num_rows_), true);
}

const std::vector<std::int64_t>& Table::required() {
  if (required_.empty()) {
    for (std::size_t row = 0; row < is_required_.size(); ++row) {
      if (is_required_[row]) required_.push_back(static_cast<std::int64_t>(row));
    }
  }
  return required_;
}

void Table::allocate() {
  slots_.assign(static_cast<std::size_t>(num_rows_), -1);
  std::int32_t slot = 0;
  for (std::int64_t row : required()) slots_[static_cast<std::size_t>(row)] = slot++;
  cells_.assign(required().size() * static_cast<std::size_t>(num_cols_), exactly(0));
}

void Table::release() {
  cells_ = {};
  slots_ = {};
}

Interval* Table::cells(std::int64_t row) {
  const std::int32_t slot = slots_[static_cast<std::size_t>(row)];
  EPIFUSE_CHECK(slot >= 0, "a row of the reference was not required");
  return cells_.data() + slot * num_cols_;
}

Row Table::row(std::int64_t row) const {
  if (!in_memory_) return Row(const_cast<Table*>(this)->cells(row));
  const std::size_t rank = shape_.size();
  if (rank == 0) return Row(data_, dtype_, layout_.offset, 0);
  std::int64_t offset = layout_.offset;
  for (std::size_t d = rank - 1; d-- > 0;) {
    offset += row % shape_[d] * layout_.strides[d];
    row /= shape_[d];
  }
  return Row(data_, dtype_, offset, layout_.strides[rank - 1]);
}

std::int64_t broadcast_row(const std::vector<std::int64_t>& to, std::int64_t row,
                           const std::vector<std::int64_t>& from) {
  std::int64_t result = 0, scale = 1;
  // Dims are aligned at the right; the last one is the columns.
  for (std::size_t i = 2; i <= from.size(); ++i) {
    const std::int64_t size = to[to.size() - i];
    const std::int64_t own = from[from.size() - i];
    if (own != 1) {
      result += row % size * scale;
      scale *= own;
    }
    row /= size;
  }
  return result;
}

}  // namespace epifuse::reference
