// Packs a panel of b into the blocks that oneDNN's AVX-512 and AMX kernels read.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "backends/cpu/pack.h"

namespace epifuse::cpu {

// Words of 4 bytes hold one float, or two bf16 neighbours in k. Blocks are [kBlockWords][width]
// words: all k of the first `width` columns of the product, then of the next ones. What lies beyond
// the edges of the panel is zero.
constexpr std::int64_t kBlockWords = 16;
constexpr std::int64_t kBlockWidth = 64;  // unless there are fewer columns

constexpr std::int64_t block_width(std::int64_t num_columns) {
  return std::clamp((num_columns + 15) / 16 * 16, std::int64_t{16}, kBlockWidth);
}
std::size_t bytes_of_blocks(DType dtype, std::int64_t num_columns, std::int64_t k);

// `panel` has a row for each column of the product; `to` is its dtype or f32.
void pack_blocks(const Matrix& panel, DType to, std::int64_t width, char* out);

// out[row * num_columns + column] = in[column * in_stride + row].
void transpose(const float* in, std::int64_t in_stride, std::int64_t num_rows,
               std::int64_t num_columns, float* out);

}  // namespace epifuse::cpu
