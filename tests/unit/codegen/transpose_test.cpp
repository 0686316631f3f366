// Runs kernels/common/transpose.cuh on the host, launched by transpose_launch, over matrices of all
// sorts of sizes and places.
#include "codegen/transpose.h"

#include <gtest/gtest.h>

#include <cstring>
#include <numeric>
#include <vector>

#include "cuda_on_host.h"
#include "epifuse/error.h"
#include "kernels/common/transpose.cuh"

namespace epifuse::codegen {
namespace {

using Longs = std::vector<std::int64_t>;
using Bytes = std::vector<unsigned char>;

constexpr std::size_t kBoundary = 16;
constexpr unsigned char kPoison = 0xab;

// Memory whose first element lies so many bytes behind a boundary.
struct Memory {
  Bytes bytes;
  ir::Layout layout;
  std::size_t first;

  Memory(const Longs& shape, const Longs& strides, std::size_t off = 0)
      : layout{0, shape, strides} {
    std::int64_t last = 0;
    for (std::size_t d = 0; d < shape.size(); ++d) {
      last += std::max<std::int64_t>(shape[d] - 1, 0) * strides[d];
    }
    bytes.assign(static_cast<std::size_t>(last) + 1 + 2 * kBoundary + off, kPoison);
    const auto address = reinterpret_cast<std::uintptr_t>(bytes.data());
    first = (kBoundary - address % kBoundary) % kBoundary + off;
  }
  // At an offset, as a view's elements are.
  BoundTensor bound() {
    layout.offset = static_cast<std::int64_t>(first);
    return {bytes.data(), layout};
  }
  unsigned char& at(std::int64_t i) { return bytes[first + static_cast<std::size_t>(i)]; }
};

abi::TransposeParams params_of(const Launch& launch) {
  abi::TransposeParams params;
  EXPECT_EQ(launch.params.size(), sizeof params);
  std::memcpy(&params, launch.params.data(), sizeof params);
  return params;
}

void run(const Launch& launch) {
  const abi::TransposeParams params = params_of(launch);
  EXPECT_EQ(launch.block, static_cast<unsigned>(transposes::kThreads));
  device_on_host::launch(launch.grid, launch.block, [&] { transposes::bytes(params); });
}

// A matrix of rows x cols that is contiguous along cols, `stride` apart, becomes one along rows.
void check_matrix(std::int64_t rows, std::int64_t cols, std::int64_t stride, std::size_t off,
                  int unit) {
  SCOPED_TRACE(::testing::Message() << rows << "x" << cols << ", " << stride << ", " << off);
  const std::int64_t to_stride = (rows + 15) / 16 * 16;
  Memory from({rows, cols}, {stride, 1}, off), to({rows, cols}, {1, to_stride});
  const auto value = [](std::int64_t i, std::int64_t j) {
    return static_cast<unsigned char>(i * 131 + j * 17 + i * j % 7);
  };
  for (std::int64_t i = 0; i < rows; ++i) {
    for (std::int64_t j = 0; j < cols; ++j) from.at(i * stride + j) = value(i, j);
  }
  const Launch launch = transpose_launch(from.bound(), to.bound());
  EXPECT_EQ(params_of(launch).unit, unit);
  run(launch);
  for (std::int64_t j = 0; j < cols; ++j) {
    for (std::int64_t i = 0; i < to_stride; ++i) {
      const bool is_last = j + 1 == cols && i >= rows;  // of which Memory has none
      if (is_last) continue;
      ASSERT_EQ(to.at(j * to_stride + i), i < rows ? value(i, j) : 0) << i << ", " << j;
    }
  }
}

TEST(Transpose, PutsEveryElementInItsPlaceAndZerosBehindRows) {
  check_matrix(256, 384, 384, 0, 16);
  check_matrix(1, 1, 1, 0, 16);
  check_matrix(16, 16, 16, 0, 16);
  check_matrix(130, 272, 288, 0, 16);
  check_matrix(71, 57, 57, 0, 1);
  check_matrix(300, 20, 20, 0, 4);
  check_matrix(144, 200, 200, 0, 4);
  check_matrix(17, 129, 144, 4, 4);
  check_matrix(33, 260, 272, 7, 1);
}

TEST(Transpose, TakesColumnsOfAMatrixToo) {  // as a transposed view has them
  Memory from({40, 48}, {1, 64}), to({40, 48}, {48, 1});
  for (std::int64_t i = 0; i < 40; ++i) {
    for (std::int64_t j = 0; j < 48; ++j) from.at(i + 64 * j) = static_cast<unsigned char>(i ^ j);
  }
  run(transpose_launch(from.bound(), to.bound()));
  for (std::int64_t i = 0; i < 40; ++i) {
    for (std::int64_t j = 0; j < 48; ++j) ASSERT_EQ(to.at(48 * i + j), (i ^ j)) << i << ", " << j;
  }
}

// [2, 3, 20, 48], whose outer dims lie the other way round, and one that repeats.
TEST(Transpose, GoesThroughBatches) {
  Memory from({2, 3, 20, 48}, {1000, 2016, 48, 1}), to({2, 3, 20, 48}, {4608, 1536, 1, 32});
  std::iota(from.bytes.begin(), from.bytes.end(), static_cast<unsigned char>(0));
  const Launch launch = transpose_launch(from.bound(), to.bound());
  EXPECT_EQ(launch.grid, 6u);
  EXPECT_EQ(params_of(launch).unit, 4) << "1000 bytes are no multiple of 16";
  run(launch);
  for (const std::int64_t b : {0, 1}) {
    for (const std::int64_t c : {0, 1, 2}) {
      for (std::int64_t i = 0; i < 20; ++i) {
        for (std::int64_t j = 0; j < 48; ++j) {
          ASSERT_EQ(to.at(4608 * b + 1536 * c + i + 32 * j),
                    from.at(1000 * b + 2016 * c + 48 * i + j))
              << b << ", " << c << ", " << i << ", " << j;
        }
      }
    }
  }
  Memory repeated({5, 20, 48}, {0, 48, 1}), once({5, 20, 48}, {0, 1, 32});
  EXPECT_EQ(transpose_launch(repeated.bound(), once.bound()).grid, 1u);
}

TEST(Transpose, HasNoTilesOfNoElements) {
  Memory from({0, 48}, {48, 1}), to({0, 48}, {1, 16});
  EXPECT_EQ(transpose_launch(from.bound(), to.bound()).grid, 0u);
}

TEST(Transpose, RefusesMoreDimsThanAKernelHas) {
  const Longs shape{2, 2, 2, 2, 2, 4, 16};
  Memory from(shape, {64, 256, 1024, 4096, 16384, 16, 1}),
      to(shape, {16384, 4096, 1024, 512, 256, 1, 16});
  EXPECT_THROW(transpose_launch(from.bound(), to.bound()), ArgumentError);
}

}  // namespace
}  // namespace epifuse::codegen
