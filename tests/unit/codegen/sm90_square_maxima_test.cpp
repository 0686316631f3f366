// Runs kernels/sm90/square_maxima.cuh on the host: the warps of a tile's consumers, each with the
// maxima of its rows.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "cuda_on_host.h"
#include "kernels/common/element.cuh"
#include "kernels/sm90/square_maxima.cuh"

namespace epifuse::sm90 {
namespace {

template <bool kIsCooperative, int kRows, int kColumns>
struct TestConfig {
  static constexpr Gates kGates = Gates::none;
  static constexpr int kTileM = kRows, kTileN = kColumns;
  using Scheduler = OneProduct;
  struct Consumers {
    static constexpr bool kCooperative = kIsCooperative;
    static constexpr int kCount = 2;
    static constexpr int kSplitK = 1;
  };
};

struct TestEpilogue {
  using Rows = Types<>;
  using Cols = Types<>;
  using Tiles = Types<>;
  using Scalars = Types<>;
  static constexpr int kNumParameters = 0;
  static constexpr int kNumBlocks = 2;
  static constexpr unsigned kBlockStores = 0, kResultTiles = 0;
  static constexpr int kRowsOfBlock = 128;
};

// The maximum that a row of a tile has of a block; of the second maximum it is the negative.
float of_row(int tile, int row, int block) {
  if (tile == 1 && row == 70 && block == 0) return std::numeric_limits<float>::quiet_NaN();
  return static_cast<float>((row * 37 + block * 11 + tile * 53) % 257);
}

float expected(int tile, int first_row, int block, int maximum) {
  float largest = identity<Reduce::max>();
  for (int row = first_row; row < first_row + 128; ++row) {
    const float value = of_row(tile, row, block);
    largest = combine<Reduce::max>(largest, maximum == 0 ? value : -value);
  }
  return largest;
}

// Tiles one after the other, with as many threads as a tile has; consumers that are no cooperative
// ones have tiles of their own.
template <bool kIsCooperative, int kRows, int kColumns>
void check() {
  using Config = TestConfig<kIsCooperative, kRows, kColumns>;
  using Squares = SquareMaxima<Config, TestEpilogue>;
  constexpr int kConsumerRows = kRowsOfConsumer<Config>, kAcross = kColumns / 128;
  static_assert(Squares::kBytes == 2 * 2 * 8 * kAcross * 2 * 4);
  device_on_host::launch(1, kIsCooperative ? 256 : 128, [] {
    const int thread = static_cast<int>(threadIdx.x);
    const int group = thread / 128, warp = thread / 32 % 4, lane = thread % 32;
    auto* const shared = reinterpret_cast<float*>(shared_memory());
    Squares squares;
    BlockMaxima<Config, TestEpilogue> maxima;
    for (int tile = 0; tile < 5; ++tile) {
      squares.find(shared, maxima, group, warp, lane, [&](int i) {
        const int block = i % (kAcross * 2) / 2;
        for (int half = 0; half < 2; ++half) {
          const int row =
              group * kConsumerRows + i / (kAcross * 2) * 64 + warp * 16 + lane / 4 + half * 8;
          maxima.largest[half][0] = of_row(tile, row, block);
          maxima.largest[half][1] = -of_row(tile, row, block);
        }
      });
      const int first_row = group * kConsumerRows / 128 * 128;
      for (int i = 0; i < kConsumerRows / 64 * kAcross * 2; ++i) {
        squares.put(shared, i, maxima, group);
        for (int b = 0; b < 2; ++b) {
          const float wanted = expected(tile, first_row, i % (kAcross * 2) / 2, b);
          for (const auto& largest : maxima.largest) {
            EXPECT_TRUE(largest[b] == wanted || (std::isnan(largest[b]) && std::isnan(wanted)));
          }
        }
      }
    }
  });
}

TEST(Sm90SquareMaxima, AreOfAllRowsOfOneConsumer) {
  check<false, 128, 128>();
  check<true, 256, 128>();
}

TEST(Sm90SquareMaxima, AreOfTheRowsOfBothConsumers) {
  check<true, 128, 128>();
  check<true, 128, 256>();
}

}  // namespace
}  // namespace epifuse::sm90
