// Block scales of the Hopper kernels (kernels/sm90/block_scales.cuh) on the host: a warp copies
// them to shared memory, or lanes of the consumers read them, and threads find those of their sums.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <new>
#include <vector>

#include "cuda_on_host.h"

inline int __shfl_sync(unsigned, int x, int) { return x; }

#include "kernels/sm90/block_scales.cuh"

namespace epifuse::sm90 {
namespace {

constexpr int kBlocks = 7;                                // of K: more than there are slots
constexpr int kFirst = 2, kSteps = kBlocks - kFirst + 1;  // of a tile, one of them past the end
constexpr int kRowsThere = 230, kColumnsThere = 300;      // some of the tile's rows are not

template <int kM, int kN, Scaling kScaling_, Gates kGates_ = Gates::none,
          class Consumers_ = Cooperative>
struct Tile : UsualConfig {
  static constexpr int kTileM = kM, kTileN = kN, kSharedBytes = 232448;
  using Consumers = Consumers_;
  static constexpr Scaling kScaling = kScaling_;
  static constexpr Gates kGates = kGates_;
};

template <class Tile>
struct InParts : Tile {
  static constexpr int kColumnParts = 2;
};

// The slots and their barriers alone.
template <class Config>
struct Slots {
  using Ring = ScaleRing<Config>;
  static float* scales(int number) {
    return reinterpret_cast<float*>(shared_memory() + 1024 +
                                    number % Ring::kSlots * Ring::kSlotBytes);
  }
  static EmptyBarrier& barrier(int i) {
    return reinterpret_cast<EmptyBarrier*>(shared_memory())[i];
  }
  static FullBarrier& scales_there(int number) { return barrier(number % Ring::kSlots); }
  static EmptyBarrier& scales_read(int number) {
    return barrier(Ring::kSlots + number % Ring::kSlots);
  }
};

// Of an operand's rows, `each` of which share one; small, so that products are exact.
struct Scales {
  int rows, each, salt;
  std::vector<float> data;
  Scales(int rows_, int each_, int salt_) : rows(rows_), each(each_), salt(salt_) {
    for (int r = 0; r < (rows + each - 1) / each; ++r) {
      for (int i = 0; i < kBlocks; ++i) data.push_back(value(r, i));
    }
  }
  float value(int r, int i) const { return static_cast<float>(r * 8 + i + salt); }
  float at(int row, int i) const {
    return i < kBlocks ? value(std::min(row, rows - 1) / each, i) : 0;
  }
  abi::BlockScales params() const {
    return {data.data(), kBlocks, 1, {}, 0, 1, each == 128 ? 7 : 0, kBlocks};
  }
};

// Whose column of B a column of the tile is, and of which product.
template <class Config>
std::pair<int, bool> column_of(int tile_n, int column) {
  constexpr int kHalf = Config::kTileN / 2;
  if (Config::kGates == Gates::halves) return {tile_n + column % kHalf, column >= kHalf};
  return {(Config::kGates == Gates::by_turns ? 2 : 1) * tile_n + column, false};
}

// The sums of a block of rows, as the main loop adds them: in parts of the columns.
template <class Config, class Scaler, int kSums>
void add_parts(Scaler& scaler, int block, const float (&all)[kSums], float (&sums)[kSums]) {
  constexpr int kOfPart = kSums / Config::kColumnParts;
  for (int first = 0; first < kSums; first += kOfPart) {
    float part[kOfPart];
    std::copy_n(all + first, kOfPart, part);
    scaler.template add<kOfPart>(block, first, part, sums);
  }
}

template <class Config>
void test(int tile_n, int each_of_b) {
  constexpr int kGroups = kConsumersOfTile<Config>, kSums = Config::kTileN / 2;
  constexpr int kRowBlocks = kRowsOfConsumer<Config> / kBlockRows;
  const Scales a(kRowsThere, 1, 1), b(2 * kColumnsThere, each_of_b, 2),
      second(kColumnsThere, each_of_b, 5);
  abi::GemmParams p = {};
  p.m = kRowsThere;
  p.n = kColumnsThere;
  p.a_scales = a.params();
  p.b_scales = b.params();
  p.second_b_scales = second.params();
  for (int i = 0; i < ScaleRing<Config>::kSlots; ++i) {
    (new (&Slots<Config>::scales_there(i)) EmptyBarrier)->init(32);
    (new (&Slots<Config>::scales_read(i)) EmptyBarrier)->init(4 * kGroups);
  }
  TileScheduler<Config> tile;
  tile.m = kRowsThere - 100;
  tile.n = tile_n;
  std::atomic<int> num_wrong = 0;
  device_on_host::launch(1, 128 * (kGroups + 1), [&] {
    const auto thread = static_cast<int>(threadIdx.x);
    if (thread < 32) {
      ScaleLoader<Config, Slots<Config>> loader(p);
      for (int t = 0; t < 2; ++t) {
        loader.find(tile);
        for (int i = 0; i < kSteps; ++i) loader.load(kFirst + i);
      }
    }
    if (thread < 128) return;
    const int group = thread / 128 - 1;
    BlockScaler<Config, Slots<Config>> scaler(p, group);
    scaler.begin(tile, kFirst);
    for (int i = 0; i < 2 * kSteps; ++i) {
      const int step = kFirst + i % kSteps, turn = i % kSteps % scaler.kTurns;
      if (i == kSteps) scaler.begin(tile, kFirst);
      for (int block = 0; block < kRowBlocks; ++block) {
        float part[kSums], sums[kSums];
        for (int s = 0; s < kSums; ++s) {
          part[s] = 2;
          sums[s] = static_cast<float>(s);
        }
        if (turn == 0) scaler.template take<0>(block);
        if (turn == 1) scaler.template take<1>(block);
        add_parts<Config>(scaler, block, part, sums);
        for (int s = 0; s < kSums; ++s) {
          const int row = tile.m + (group * kRowBlocks + block) * 64 + thread % 128 / 32 * 16 +
                          thread % 32 / 4 + s / 2 % 2 * 8;
          const auto [column, is_second] =
              column_of<Config>(tile.n, s / 4 * 8 + thread % 4 * 2 + s % 2);
          const int last = kColumnsThere * (Config::kGates == Gates::by_turns ? 2 : 1) - 1;
          const float of_b = (is_second ? second : b).at(std::min(column, last), step);
          if (sums[s] != static_cast<float>(s) + 2 * a.at(row, step) * of_b) ++num_wrong;
        }
      }
    }
  });
  EXPECT_EQ(num_wrong, 0);
}

TEST(Sm90BlockScales, AreOneForTheColumnsOfATile) {
  test<Tile<256, 128, Scaling::by_tile>>(128, 128);
  test<Tile<128, 128, Scaling::by_tile>>(256, 128);
  test<Tile<64, 64, Scaling::by_tile, Gates::none, OneConsumer>>(192, 128);
}

TEST(Sm90BlockScales, AreOneForEachColumn) {
  test<Tile<256, 128, Scaling::by_column>>(256, 1);  // whose last columns are not there
  test<Tile<128, 128, Scaling::by_column>>(128, 1);
  test<Tile<128, 192, Scaling::by_column>>(192, 128);
  test<Tile<64, 112, Scaling::by_column, Gates::none, OneConsumer>>(112, 1);
}

TEST(Sm90BlockScales, AreThoseOfBothGates) {
  test<Tile<128, 128, Scaling::by_tile, Gates::halves>>(64, 128);
  test<Tile<128, 128, Scaling::by_column, Gates::halves>>(256, 1);
  test<Tile<256, 128, Scaling::by_column, Gates::by_turns>>(64, 1);
  test<Tile<128, 128, Scaling::by_tile, Gates::by_turns>>(192, 128);
  test<InParts<Tile<128, 256, Scaling::by_tile, Gates::halves>>>(128, 128);
  test<InParts<Tile<64, 256, Scaling::by_column, Gates::halves, OneConsumer>>>(128, 1);
  test<InParts<Tile<128, 256, Scaling::by_column, Gates::halves>>>(128, 1);
  test<InParts<Tile<128, 256, Scaling::by_column, Gates::by_turns>>>(128, 128);
}

}  // namespace
}  // namespace epifuse::sm90
