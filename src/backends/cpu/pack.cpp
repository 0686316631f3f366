// Packing: row copies where rows are contiguous, else small blocks that are transposed in cache.
#include "backends/cpu/pack.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "backends/cpu/strips.h"

namespace epifuse::cpu {
namespace {

constexpr std::int64_t kBlock = 64;  // rows and columns of a block that is transposed at once

struct Packed {
  char* data;
  std::int64_t row_stride;  // in elements
  char* row(std::int64_t index, DType dtype) const {
    return data + index * row_stride * static_cast<std::int64_t>(size_bytes(dtype));
  }
};

template <class Element>
void copy_block(const Matrix& source, std::int64_t row, std::int64_t column, std::int64_t num_rows,
                std::int64_t num_columns, Packed out) {
  auto* to = reinterpret_cast<Element*>(out.data) + row * out.row_stride + column;
  for (std::int64_t c = 0; c < num_columns; ++c) {
    const auto* from = reinterpret_cast<const Element*>(source.at(row, column + c));
    for (std::int64_t r = 0; r < num_rows; ++r) {
      to[r * out.row_stride + c] = from[r * source.row_stride];
    }
  }
}

void convert_block(const Matrix& source, std::int64_t row, std::int64_t column,
                   std::int64_t num_rows, std::int64_t num_columns, Packed out) {
  const auto load = best_strips().load[static_cast<std::size_t>(source.dtype)];
  auto* to = reinterpret_cast<float*>(out.data) + row * out.row_stride + column;
  std::array<float, kBlock> values;
  for (std::int64_t c = 0; c < num_columns; ++c) {
    load(values.data(), source.at(row, column + c), source.row_stride, num_rows);
    for (std::int64_t r = 0; r < num_rows; ++r) {
      to[r * out.row_stride + c] = values[static_cast<std::size_t>(r)];
    }
  }
}

void pack_rows(const Matrix& source, DType to, Packed out) {
  const auto row_bytes = source.num_columns * static_cast<std::int64_t>(size_bytes(to));
  const auto load = best_strips().load[static_cast<std::size_t>(source.dtype)];
  for (std::int64_t row = 0; row < source.num_rows; ++row) {
    char* const to_row = out.row(row, to);
    if (source.dtype == to) {
      std::memcpy(to_row, source.at(row, 0), static_cast<std::size_t>(row_bytes));
    } else {
      load(reinterpret_cast<float*>(to_row), source.at(row, 0), 1, source.num_columns);
    }
  }
}

template <class Element>
void copy_spread(const char* from, std::int64_t stride, std::int64_t count, char* out) {
  for (std::int64_t i = 0; i < count; ++i) {
    std::memcpy(out + i * std::int64_t{sizeof(Element)},
                from + i * stride * std::int64_t{sizeof(Element)}, sizeof(Element));
  }
}

// Every second column, or so: rows are read as they lie, what is between the columns, too.
void pack_spread(const Matrix& source, DType to, Packed out) {
  constexpr std::int64_t kFloats = 1024;
  const std::int64_t stride = source.column_stride, most = kFloats / stride;
  const auto load = best_strips().load[static_cast<std::size_t>(source.dtype)];
  const auto copy = to == DType::f32 ? copy_spread<std::uint32_t> : copy_spread<std::uint16_t>;
  const auto bytes = static_cast<std::int64_t>(size_bytes(to));
  std::array<float, kFloats> values;
  for (std::int64_t row = 0; row < source.num_rows; ++row) {
    char* to_row = out.row(row, to);
    for (std::int64_t first = 0; first < source.num_columns; first += most) {
      const std::int64_t count = std::min(most, source.num_columns - first);
      if (source.dtype == to && stride == 2 && bytes == 2) {
        best_strips().every_second(to_row, source.at(row, first), count);
      } else if (source.dtype == to) {
        copy(source.at(row, first), stride, count, to_row);
      } else {
        load(values.data(), source.at(row, first), 1, (count - 1) * stride + 1);
        copy_spread<float>(reinterpret_cast<const char*>(values.data()), stride, count, to_row);
      }
      to_row += count * bytes;
    }
  }
}

void copy_elements(const Matrix& source, DType to, Packed out) {
  constexpr std::int64_t kMostSpread = 4;
  if (source.column_stride == 1) return pack_rows(source, to, out);
  if (source.column_stride > 1 && source.column_stride <= kMostSpread) {
    return pack_spread(source, to, out);
  }
  const auto copy = source.dtype != to ? convert_block
                    : to == DType::f32 ? copy_block<std::uint32_t>
                                       : copy_block<std::uint16_t>;
  for (std::int64_t row = 0; row < source.num_rows; row += kBlock) {
    const std::int64_t num_rows = std::min(kBlock, source.num_rows - row);
    for (std::int64_t column = 0; column < source.num_columns; column += kBlock) {
      const std::int64_t num_columns = std::min(kBlock, source.num_columns - column);
      copy(source, row, column, num_rows, num_columns, out);
    }
  }
}

}  // namespace

void pack(const Matrix& source, DType to, char* out, std::int64_t row_stride) {
  const Packed packed{out, row_stride};
  copy_elements(source, to, packed);
  const std::int64_t num_zeros = row_stride - source.num_columns;
  if (num_zeros == 0) return;
  const auto bytes = static_cast<std::int64_t>(size_bytes(to));
  for (std::int64_t row = 0; row < source.num_rows; ++row) {
    std::memset(packed.row(row, to) + source.num_columns * bytes, 0,
                static_cast<std::size_t>(num_zeros * bytes));
  }
}

void pack(const Matrix& source, DType to, char* out) { pack(source, to, out, source.num_columns); }

}  // namespace epifuse::cpu
