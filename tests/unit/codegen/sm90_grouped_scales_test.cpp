// Block scales of groups of rows (kernels/sm90/scale_warp.cuh) on the host, from the barriers'
// set-up on: the producer announces tiles, and all warps of a CTA that take them come to the end.
#include <gtest/gtest.h>

#include <atomic>
#include <vector>

#include "cuda_on_host.h"

inline int __shfl_sync(unsigned, int x, int) { return x; }

#include "kernels/sm90/scale_warp.cuh"

namespace epifuse::sm90 {
namespace {

constexpr int kRows = 300, kColumns = 400, kGroups = 3, kSteps = 5, kColumnBlocks = 4;
constexpr int kEnds[kGroups] = {130, 130, 300};

struct OneResult {
  using Rows = Types<>;
  using Cols = Types<>;
  using Tiles = Types<>;
  using Scalars = Types<>;
  using Stores = Types<Bf16>;
};

template <Scaling kScaling_, int kBytes>
struct Tile : UsualConfig {
  static constexpr int kTileM = 128, kTileN = 128, kTileK = 128, kStages = 3, kSharedBytes = kBytes;
  using Consumers = Cooperative;
  using Scheduler = GroupedProducts;
  static constexpr bool kPromotesSums = true;
  static constexpr Scaling kScaling = kScaling_;
};

// Of a row's or a column's block of K; small, so that products are exact.
float scale(int group, int row, int step) {
  return static_cast<float>(group * 64 + row * 8 + step + 1);
}

// A consumer's warps: every sum of every tile has the scales of its row and its group's column.
template <class Config, class Layout>
int wrong_of_consumer(const abi::GemmParams& p, int group) {
  constexpr int kSums = Config::kTileN / 2;
  const auto thread = static_cast<int>(threadIdx.x) % 128;
  int num_wrong = 0;
  ConsumerScheduler<Config> tiles;
  BlockScaler<Config, Layout> scaler(p, group);
  for (bool more = tiles.begin(p, group); more; more = tiles.next(p)) {
    scaler.begin(tiles, 0);
    for (int step = 0; step < kSteps; ++step) {
      float part[kSums], sums[kSums];
      for (int s = 0; s < kSums; ++s) part[s] = 2, sums[s] = 1;
      if (step % scaler.kTurns == 0) scaler.template take<0>(0);
      if (step % scaler.kTurns == 1) scaler.template take<1>(0);
      scaler.template add<kSums>(0, 0, part, sums);
      for (int s = 0; s < kSums; ++s) {
        const int row = tiles.m + group * 64 + thread / 32 * 16 + thread % 32 / 4 + s / 2 % 2 * 8;
        const int column = std::min(tiles.n + s / 4 * 8 + thread % 4 * 2 + s % 2, kColumns - 1);
        const float of_row = scale(0, std::min(row, kRows - 1) % 7, step);
        const float of_column = scale(tiles.batch.inner, column / 128, step);
        num_wrong += sums[s] != 1 + 2 * of_row * of_column ? 1 : 0;
      }
    }
  }
  return num_wrong;
}

template <class Config>
void test() {
  using Layout = SharedLayout<Config, OneResult>;
  std::vector<float> a, b;
  for (int row = 0; row < kRows; ++row) {
    for (int step = 0; step < kSteps; ++step) a.push_back(scale(0, row % 7, step));
  }
  for (int group = 0; group < kGroups; ++group) {
    for (int block = 0; block < kColumnBlocks; ++block) {
      for (int step = 0; step < kSteps; ++step) b.push_back(scale(group, block, step));
    }
  }
  abi::GemmParams p = {};
  p.m = kRows;
  p.n = kColumns;
  p.k = kSteps * Config::kTileK;
  p.raster = 16;
  p.batch = kGroups;
  p.groups = {kEnds, 1, kGroups, 0};
  p.a_scales = {a.data(), kSteps, 1, {}, 0, 1, 0, kSteps};
  p.b_scales = {b.data(), kSteps, 1, {0, kColumnBlocks * kSteps}, 0, 1, 7, kSteps};
  std::atomic<int> num_wrong = 0, num_tiles = 0;
  device_on_host::launch(1, 384, [&] {
    const auto warp = static_cast<int>(threadIdx.x) / 32;
    prepare<Config, OneResult>(warp);
    if (ScaleRing<Config>::kExists && warp == 3) return load_scales<Config, Layout>(p);
    start<Config>(p);
    if (warp >= kWarpsPerGroup) {
      num_wrong += wrong_of_consumer<Config, Layout>(p, warp / kWarpsPerGroup - 1);
    } else if (warp > 0 && warp < 3) {  // transfers chunks
      ConsumerScheduler<Config> tiles;
      for (bool more = tiles.begin(p, warp - 1); more; more = tiles.next(p)) {
      }
    } else if (threadIdx.x == 0) {
      TileAnnouncer<Config> announcer(p);
      for (; announcer.tile().exists; announcer.go_on()) {
        ++num_tiles;
        for (int step = 0; step < kSteps; ++step) announcer.announce_more();
      }
      announcer.announce_end();
    }
  });
  EXPECT_EQ(num_tiles, 4 * (2 + 2)) << "more than there are places for";
  EXPECT_EQ(num_wrong, 0);
}

TEST(Sm90GroupedScales, AllWarpsTakeTheAnnouncedTiles) {
  test<Tile<Scaling::by_tile, 115152>>();
  test<Tile<Scaling::by_column, 119312>>();
}

}  // namespace
}  // namespace epifuse::sm90
