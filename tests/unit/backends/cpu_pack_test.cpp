// Blocks of packed matrices against their definition, and the loops they are made with.
#include <gtest/gtest.h>

#include <cstring>
#include <numeric>
#include <utility>
#include <vector>

#include "backends/cpu/pack.h"
#include "backends/cpu/pack_blocks.h"
#include "backends/cpu/strips.h"
#include "base/float_types.h"

namespace epifuse::cpu {
namespace {

// A matrix whose element (row, column) is small, exact in every dtype, and differs from its
// neighbours.
double element(std::int64_t row, std::int64_t column) {
  return static_cast<double>((row * 7 + column * 3) % 31 - 15);
}

struct Stored {
  std::vector<char> memory;
  Matrix matrix;
  Stored(DType dtype, std::int64_t num_rows, std::int64_t num_columns, std::int64_t row_stride,
         std::int64_t column_stride) {
    const std::int64_t count = (num_rows - 1) * row_stride + (num_columns - 1) * column_stride + 1;
    memory.resize(static_cast<std::size_t>(count) * size_bytes(dtype));
    for (std::int64_t row = 0; row < num_rows; ++row) {
      for (std::int64_t column = 0; column < num_columns; ++column) {
        store_element(memory.data(), dtype, row * row_stride + column * column_stride,
                      element(row, column));
      }
    }
    matrix = {memory.data(), dtype, num_rows, num_columns, row_stride, column_stride};
  }
};

void check_blocks(const Matrix& matrix, DType to) {
  const std::int64_t width = block_width(matrix.num_rows);
  const std::int64_t per_word = to == DType::f32 ? 1 : 2;
  const std::int64_t per_block = kBlockWords * per_word;
  const std::int64_t padded_k = (matrix.num_columns + per_block - 1) / per_block * per_block;
  const std::int64_t padded_rows = (matrix.num_rows + width - 1) / width * width;
  const std::size_t num_bytes = bytes_of_blocks(to, matrix.num_rows, matrix.num_columns);
  ASSERT_EQ(num_bytes, static_cast<std::size_t>(padded_rows * padded_k) * size_bytes(to));
  std::vector<char> packed(num_bytes + 1, 'x');
  pack_blocks(matrix, to, width, packed.data());
  for (std::int64_t row = 0; row < padded_rows; ++row) {
    for (std::int64_t k = 0; k < padded_k; ++k) {
      const std::int64_t word = (row / width * padded_k + k / per_word * per_word) * width +
                                row % width * per_word + k % per_word;
      const bool is_inside = row < matrix.num_rows && k < matrix.num_columns;
      ASSERT_EQ(load_element(packed.data(), to, word), is_inside ? element(row, k) : 0)
          << "row " << row << " k " << k;
    }
  }
  EXPECT_EQ(packed.back(), 'x') << "nothing is written past the end";
}

struct Sizes {
  std::int64_t num_rows, k;
};
constexpr Sizes kSizes[] = {{1, 1},  {5, 3},    {16, 32},  {17, 33},  {48, 64},
                            {64, 7}, {64, 300}, {65, 129}, {150, 96}, {130, 513}};

TEST(CpuPack, BlocksOfAnyStridesAndDtype) {
  const auto check = [](const Sizes& s, DType from, DType to) {
    SCOPED_TRACE(std::to_string(s.num_rows) + "x" + std::to_string(s.k) + " " +
                 std::string(name(from)) + " to " + std::string(name(to)));
    check_blocks(Stored(from, s.num_rows, s.k, s.k, 1).matrix, to);
    check_blocks(Stored(from, s.num_rows, s.k, s.k + 5, 1).matrix, to);
    check_blocks(Stored(from, s.num_rows, s.k, 1, s.num_rows).matrix, to);
    check_blocks(Stored(from, s.num_rows, s.k, 1, s.num_rows + 3).matrix, to);
    check_blocks(Stored(from, s.num_rows, s.k, 2 * s.k, 2).matrix, to);
    check_blocks(Stored(from, s.num_rows, s.k, 2, 2 * s.num_rows - 1).matrix, to);
  };
  for (const Sizes& s : kSizes) {
    check(s, DType::f32, DType::f32);
    check(s, DType::bf16, DType::bf16);
    check(s, DType::f16, DType::f32);
    check(s, DType::e4m3, DType::f32);
  }
}

TEST(CpuPack, DenseRowsOfAnyStridesAndDtype) {
  const auto check = [](const Matrix& matrix, DType to) {
    const std::int64_t count = matrix.num_rows * matrix.num_columns;
    std::vector<char> packed(static_cast<std::size_t>(count) * size_bytes(to) + 1, 'x');
    pack(matrix, to, packed.data());
    for (std::int64_t i = 0; i < count; ++i) {
      const std::int64_t row = i / matrix.num_columns, column = i % matrix.num_columns;
      ASSERT_EQ(load_element(packed.data(), to, i),
                round_to(load_element(matrix.at(row, column), matrix.dtype, 0), to))
          << "row " << row << " column " << column << ", column stride " << matrix.column_stride;
    }
    EXPECT_EQ(packed.back(), 'x') << "nothing is written past the end";
  };
  for (const Sizes& s : kSizes) {
    for (const std::int64_t stride : {1, 2, 3, 4, 5}) {
      for (const auto& [from, to] :
           {std::pair(DType::f32, DType::f32), std::pair(DType::bf16, DType::bf16),
            std::pair(DType::bf16, DType::f32), std::pair(DType::f16, DType::f32)}) {
        check(Stored(from, s.num_rows, s.k, s.k * stride + 1, stride).matrix, to);
      }
    }
    check(Stored(DType::bf16, s.num_rows, 700, 1400, 2).matrix, DType::f32);
  }
}

TEST(CpuPack, ZerosFollowRowsThatLieApart) {
  for (const Sizes& s : kSizes) {
    for (const std::int64_t stride : {std::int64_t{1}, std::int64_t{2}, s.num_rows + 5}) {
      const std::int64_t apart = s.k + 2;
      for (const auto& [from, to] :
           {std::pair(DType::bf16, DType::bf16), std::pair(DType::f32, DType::f32),
            std::pair(DType::f16, DType::f32)}) {
        const std::int64_t row_stride = stride > s.num_rows ? 1 : s.k * stride + 1;
        const Stored source(from, s.num_rows, s.k, row_stride, stride);
        const std::int64_t count = s.num_rows * apart;
        std::vector<char> packed(static_cast<std::size_t>(count) * size_bytes(to) + 1, 'x');
        pack(source.matrix, to, packed.data(), apart);
        for (std::int64_t i = 0; i < count; ++i) {
          const std::int64_t row = i / apart, column = i % apart;
          ASSERT_EQ(load_element(packed.data(), to, i), column < s.k ? element(row, column) : 0)
              << "row " << row << " column " << column << ", column stride " << stride;
        }
        EXPECT_EQ(packed.back(), 'x') << "nothing is written past the end";
      }
    }
  }
}

TEST(CpuPack, TransposesMatricesOfAnySize) {
  for (const Sizes& s : kSizes) {
    const std::int64_t stride = s.num_rows + 2;
    std::vector<float> in(static_cast<std::size_t>(stride * s.k));
    std::iota(in.begin(), in.end(), 1.0f);
    std::vector<float> out(static_cast<std::size_t>(s.num_rows * s.k) + 1, -1.0f);
    transpose(in.data(), stride, s.num_rows, s.k, out.data());
    for (std::int64_t row = 0; row < s.num_rows; ++row) {
      for (std::int64_t column = 0; column < s.k; ++column) {
        ASSERT_EQ(out[static_cast<std::size_t>(row * s.k + column)],
                  in[static_cast<std::size_t>(column * stride + row)]);
      }
    }
    EXPECT_EQ(out.back(), -1.0f);
  }
}

TEST(CpuPack, EveryInstructionSetMovesTheSameWords) {
  constexpr std::int64_t kBlocks = 3, kRowBytes = kBlocks * 64 + 6, kStride = 20, kCount = 37;
  std::vector<char> in(16 * kRowBytes);
  for (std::size_t i = 0; i < in.size(); ++i) in[i] = static_cast<char>(i * 37 + i / 251);
  const StripTables tables = available_strips();
  for (std::size_t t = 0; t < tables.count; ++t) {
    std::vector<std::uint32_t> out(kBlocks * 16 * kStride);
    tables.tables[t]->transpose(out.data(), kStride, in.data(), kRowBytes, kBlocks);
    for (std::size_t i = 0; i < 16; ++i) {
      for (std::size_t j = 0; j < kBlocks * 16; ++j) {
        ASSERT_EQ(std::memcmp(&out[j * kStride + i], &in[i * kRowBytes + j * 4], 4), 0)
            << tables.tables[t]->name << ' ' << i << ' ' << j;
      }
    }
    std::vector<std::uint16_t> words(2 * kCount), alone(2 * kCount);
    for (const std::size_t stride : {1, 2}) {
      const auto step = static_cast<std::int64_t>(stride);
      tables.tables[t]->interleave(words.data(), in.data(), in.data() + kRowBytes, step, kCount);
      tables.tables[t]->interleave(alone.data(), in.data(), nullptr, step, kCount);
      for (std::size_t i = 0; i < kCount; ++i) {
        ASSERT_EQ(std::memcmp(&words[2 * i], &in[2 * stride * i], 2), 0);
        ASSERT_EQ(std::memcmp(&words[2 * i + 1], &in[kRowBytes + 2 * stride * i], 2), 0);
        ASSERT_EQ(std::memcmp(&alone[2 * i], &in[2 * stride * i], 2), 0);
        ASSERT_EQ(alone[2 * i + 1], 0);
      }
    }
    std::vector<std::uint16_t> seconds(kCount + 1, 7);
    tables.tables[t]->every_second(seconds.data(), in.data(), kCount);
    for (std::size_t i = 0; i < kCount; ++i) {
      ASSERT_EQ(std::memcmp(&seconds[i], &in[4 * i], 2), 0);
    }
    EXPECT_EQ(seconds.back(), 7);
  }
}

}  // namespace
}  // namespace epifuse::cpu
