// Packing into blocks: whole blocks straight from dense rows or columns, edges by way of a copy.
#include "backends/cpu/pack_blocks.h"

#include <algorithm>
#include <array>

#include "backends/cpu/strips.h"
#include "base/ceil_div.h"

namespace epifuse::cpu {
namespace {

constexpr std::int64_t kWordBytes = 4;
constexpr std::int64_t kBlockBytes = kBlockWords * kWordBytes;  // of one column in one block
constexpr std::int64_t kTileRows = kLanes;  // columns that are transposed at once

std::int64_t elements_of_block(DType dtype) {
  return kBlockBytes / static_cast<std::int64_t>(size_bytes(dtype));
}

struct Range {
  std::int64_t first, count;
};

// What of these rows and columns lies inside of `matrix`.
Matrix cut(const Matrix& matrix, Range rows, Range columns) {
  Matrix part = matrix;
  part.data = matrix.at(rows.first, columns.first);
  part.num_rows = std::clamp(matrix.num_rows - rows.first, std::int64_t{0}, rows.count);
  part.num_columns = std::clamp(matrix.num_columns - columns.first, std::int64_t{0}, columns.count);
  return part;
}

// Any strides and dtype: dense rows first, a few blocks of them, with zeros around.
void pack_by_copy(const Matrix& part, DType to, std::int64_t width, char* out) {
  constexpr std::int64_t kBlocks = 8;
  const std::int64_t per_block = elements_of_block(to);
  alignas(kBlockBytes) std::array<char, kTileRows * kBlocks * kBlockBytes> dense;
  for (std::int64_t k = 0; k < part.num_columns; k += kBlocks * per_block) {
    const Matrix piece = cut(part, {0, kTileRows}, {k, kBlocks * per_block});
    const std::int64_t num_blocks = ceil_div(piece.num_columns, per_block);
    const std::int64_t row_bytes = num_blocks * kBlockBytes;
    const std::int64_t step = piece.num_columns % per_block == 0 ? kTileRows : 1;
    dense.fill(0);
    for (std::int64_t row = 0; row < piece.num_rows; row += step) {
      pack(cut(piece, {row, step}, {0, piece.num_columns}), to, dense.data() + row * row_bytes);
    }
    best_strips().transpose(out, width, dense.data(), row_bytes, num_blocks);
    out += num_blocks * kBlockBytes * width;
  }
}

// k is contiguous: the words of 16 rows change places with those of 16 columns.
void pack_rows(const Matrix& part, DType to, std::int64_t width, char* out) {
  const std::int64_t per_block = elements_of_block(to);
  std::int64_t num_whole = 0;
  if (part.dtype == to && part.column_stride == 1 && part.num_rows == kTileRows) {
    num_whole = part.num_columns / per_block;
    const auto row_bytes = part.row_stride * static_cast<std::int64_t>(size_bytes(to));
    best_strips().transpose(out, width, part.data, row_bytes, num_whole);
  }
  const Range rest{num_whole * per_block, part.num_columns - num_whole * per_block};
  pack_by_copy(cut(part, {0, kTileRows}, rest), to, width, out + num_whole * kBlockBytes * width);
}

// Columns of the product lie side by side, or every second of them: a row of words is a row of
// floats, or two rows of bf16.
void pack_columns(const Matrix& group, DType to, std::int64_t width, char* out) {
  const std::int64_t per_word = kWordBytes / static_cast<std::int64_t>(size_bytes(to));
  const std::int64_t per_block = kBlockWords * per_word;
  const std::int64_t end = round_up(group.num_columns, per_block);
  const std::int64_t row_bytes = width * kWordBytes, n = group.num_rows;
  for (std::int64_t k = 0; k < end; k += per_word, out += row_bytes) {
    if (k >= group.num_columns || n < width) std::fill_n(out, row_bytes, char{0});
    if (k >= group.num_columns) continue;
    const Matrix row = {group.at(0, k), group.dtype, 1, n, 0, group.row_stride};
    if (per_word == 1) {
      pack(row, to, out);
    } else {
      const bool is_pair = k + 1 < group.num_columns;
      best_strips().interleave(out, row.data, is_pair ? group.at(0, k + 1) : nullptr,
                               group.row_stride, n);
    }
  }
}

}  // namespace

std::size_t bytes_of_blocks(DType dtype, std::int64_t num_columns, std::int64_t k) {
  const std::int64_t width = block_width(num_columns);
  const std::int64_t padded_bytes = ceil_div(k, elements_of_block(dtype)) * kBlockBytes;
  return static_cast<std::size_t>(round_up(num_columns, width) * padded_bytes);
}

void pack_blocks(const Matrix& panel, DType to, std::int64_t width, char* out) {
  const std::int64_t num_blocks = ceil_div(panel.num_columns, elements_of_block(to));
  for (std::int64_t row = 0; row < panel.num_rows; row += width) {
    const Matrix group = cut(panel, {row, width}, {0, panel.num_columns});
    const bool is_k_contiguous = panel.column_stride == 1 || panel.num_columns == 1;
    if (!is_k_contiguous && (panel.row_stride == 1 || panel.row_stride == 2)) {
      pack_columns(group, to, width, out);
    } else {
      for (std::int64_t first = 0; first < width; first += kTileRows) {
        const Matrix part = cut(group, {first, kTileRows}, {0, panel.num_columns});
        pack_rows(part, to, width, out + first * kWordBytes);
      }
    }
    out += num_blocks * kBlockBytes * width;
  }
}

void transpose(const float* in, std::int64_t in_stride, std::int64_t num_rows,
               std::int64_t num_columns, float* out) {
  const std::int64_t whole_rows = num_rows / kLanes * kLanes;
  const std::int64_t whole_columns = num_columns / kLanes * kLanes;
  const std::int64_t in_bytes = in_stride * static_cast<std::int64_t>(sizeof(float));
  for (std::int64_t column = 0; column < num_columns; ++column) {
    const bool is_whole = column < whole_columns;
    if (is_whole && column % kLanes == 0) {
      best_strips().transpose(out + column, num_columns, in + column * in_stride, in_bytes,
                              whole_rows / kLanes);
    }
    for (std::int64_t row = is_whole ? whole_rows : 0; row < num_rows; ++row) {
      out[row * num_columns + column] = in[column * in_stride + row];
    }
  }
}

}  // namespace epifuse::cpu
