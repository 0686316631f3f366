// Runs kernels/sm90/block_maxima.cuh on the host: a warp's sums of one block, as wgmma leaves them.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "cuda_on_host.h"
#include "kernels/common/element.cuh"
#include "kernels/sm90/block_maxima.cuh"

namespace epifuse::sm90 {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

template <Gates kHow>
struct TestConfig {
  static constexpr Gates kGates = kHow;
  static constexpr int kTileN = kHow == Gates::none ? 128 : 256;
  using Scheduler = OneProduct;
};

// The magnitude of a sum, or of the difference of both, and of what a row, a column and a full
// operand add.
template <Gates kHow>
struct TestEpilogue {
  using Rows = Types<F32>;
  using Cols = Types<F32>;
  using Tiles = Types<F32>;
  using Scalars = Types<>;
  static constexpr int kNumParameters = 0;
  static constexpr int kNumBlocks = 2;
  static constexpr unsigned kBlockStores = 0, kResultTiles = 0;
  static constexpr int kRowsOfBlock = 1;
  static void measure(float& acc, const Operands<TestEpilogue>& x, float (&out)[2]) {
    acc += x.row[0] + x.col[0] + x.tile[0];
    out[0] = std::fabs(acc);
    out[1] = acc;
  }
  static void measure(float& gate, float& up, const Operands<TestEpilogue>& x, float (&out)[2]) {
    gate -= up;
    measure(gate, x, out);
  }
};

float sum(int product, int row, int column) {
  if (row == 9 && column == 77) return kNan;
  return static_cast<float>(product == 0 ? (row * 29 + column * 37) % 101 - 50 : row - column % 3);
}
float of_column(int row) { return static_cast<float>(row) / 4; }
float of_row(int column) { return static_cast<float>(column % 5); }
float of_tile(int row, int column) { return static_cast<float>((row * 7 + column * 3) % 31); }

template <Gates kHow>
float expected(int row, int column) {
  const float second = kHow == Gates::none ? 0.0f : sum(1, row, column);
  return sum(0, row, column) - second + of_row(column) + of_column(row) + of_tile(row, column);
}

// Of a result whose last block has so many columns; what is behind them is larger than all.
template <Gates kHow>
void check(int columns) {
  SCOPED_TRACE(columns);
  float rows[kBlockColumns];
  for (int c = 0; c < kBlockColumns; ++c) rows[c] = of_row(c);
  device_on_host::launch(1, 32, [&] {
    const int lane = static_cast<int>(threadIdx.x), first = lane % 4 * 2;
    const auto value = [&](int product, int row, int column) {
      return column < columns ? sum(product, row, column) : product == 0 ? 1e6f : 0.0f;
    };
    float acc[128], second[64];
    for (int i = 0; i < 64; ++i) {
      const int row = lane / 4 + i / 2 % 2 * 8, column = i / 4 * 8 + first + i % 2;
      acc[i] = value(0, row, column);
      second[i] = value(1, row, column);
    }
    for (int i = 0; kHow == Gates::by_turns && i < 128; ++i) {  // of each 8, both of 4 columns
      acc[i] = value(i % 2, lane / 4 + i / 2 % 2 * 8, i / 4 * 4 + lane % 4);
    }
    const float low = of_column(lane / 4), high = of_column(lane / 4 + 8);
    Operands<TestEpilogue<kHow>> x;
    BlockMaxima<TestConfig<kHow>, TestEpilogue<kHow>> maxima;
    maxima.measure(x, &low, &high, acc, second, rows + first, columns - first, lane,
                   [&](int from, int at) {
                     const int row = lane / 4 + at / 2 % 2 * 8;
                     x.tile[0] = of_tile(row, from + at / 4 * 8 + first + at % 2);
                   });
    for (int half = 0; half < 2; ++half) {
      const int row = lane / 4 + half * 8;
      float largest[2] = {identity<Reduce::max>(), identity<Reduce::max>()};
      for (int c = 0; c < columns; ++c) {
        const float each = expected<kHow>(row, c);
        largest[0] = combine<Reduce::max>(largest[0], std::fabs(each));
        largest[1] = combine<Reduce::max>(largest[1], each);
      }
      for (int b = 0; b < 2; ++b) {
        const float got = maxima.largest[half][b];
        EXPECT_TRUE(got == largest[b] || (std::isnan(got) && std::isnan(largest[b])));
      }
    }
    for (int i = 0; i < 64; ++i) {
      const int row = lane / 4 + i / 2 % 2 * 8, column = i / 4 * 8 + first + i % 2;
      if (column >= columns) continue;
      // By turns the first product's 16 columns come before the second one's.
      const float got = acc[kHow == Gates::by_turns ? i / 8 * 16 + i % 8 : i];
      const float kept = expected<kHow>(row, column);
      EXPECT_TRUE(got == kept || (std::isnan(got) && std::isnan(kept)));
    }
  });
}

TEST(Sm90BlockMaxima, AreOfTheColumnsThatThereAre) {
  for (const int columns : {1, 7, 64, 72, 128}) check<Gates::none>(columns);
}

TEST(Sm90BlockMaxima, AreOfBothProducts) {
  for (const int columns : {3, 100, 128}) {
    check<Gates::halves>(columns);
    check<Gates::by_turns>(columns);
  }
}

}  // namespace
}  // namespace epifuse::sm90
