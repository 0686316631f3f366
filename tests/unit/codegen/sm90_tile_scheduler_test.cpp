// Runs the scheduler over tiles of kernels/sm90/tile_scheduler.cuh on the host, for all CTAs.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <type_traits>
#include <vector>

#include "codegen/sm90/dense.h"
#include "cuda_on_host.h"
#include "kernels/sm90/tile_scheduler.cuh"
#include "tests/unit/targets/reference_device.h"

namespace epifuse::sm90 {
namespace {

template <int kM, int kN, bool kWidths, int kCluster = 1>
struct Tiles : UsualConfig {
  static constexpr int kTileM = kM, kTileN = kN;
  using Scheduler = std::conditional_t<kWidths, TwoWidths<OneProduct>, OneProduct>;
  using Producer = Multicast<UsualConfig::Producer, kCluster, 1>;
};

struct Placed {
  int n, width;
};

// What the kernel's parameters say for these sizes, as the host chooses it.
template <class Config>
abi::GemmParams params_of(int m, int n, int* num_ctas) {
  codegen::sm90::Config config;
  config.tile_m = Config::kTileM;
  config.tile_n = Config::kTileN;
  config.two_widths = Config::Scheduler::kTwoWidths;
  config.cluster_m = Config::Producer::kClusterM;
  const codegen::sm90::Tiling tiling =
      codegen::sm90::tile(config, {1, m, n, 64}, targets::reference_gpu().limits);
  abi::GemmParams p{};
  p.m = m;
  p.n = n;
  p.raster = tiling.raster;
  p.columns = static_cast<int>(tiling.columns);
  *num_ctas = static_cast<int>(tiling.num_ctas);
  return p;
}

// All tiles, by their first row, of all CTAs; the numbers of narrow ones of each cluster.
template <class Config>
std::map<int, std::vector<Placed>> schedule_all(const abi::GemmParams& p, int num_ctas,
                                                std::vector<int>& num_narrow) {
  std::map<int, std::vector<Placed>> rows;
  const int num_clusters = num_ctas / Config::Producer::kClusterM;
  num_narrow.assign(static_cast<std::size_t>(num_clusters), 0);
  for (int cta = 0; cta < num_ctas; ++cta) {
    device_on_host::cluster_rank = static_cast<unsigned>(cta % Config::Producer::kClusterM);
    const int cluster = cta / Config::Producer::kClusterM;
    TileScheduler<Config> scheduler, soon;
    int tile = cluster;
    for (; scheduler.go(p, tile); tile += num_clusters) {
      EXPECT_TRUE(soon.template go<true>(p, tile));
      EXPECT_EQ(soon.m, scheduler.m);
      EXPECT_EQ(soon.n, scheduler.n);
      EXPECT_EQ(soon.is_narrow, scheduler.is_narrow);
      rows[scheduler.m].push_back({scheduler.n, Config::kTileN - (scheduler.is_narrow ? 8 : 0)});
      num_narrow[static_cast<std::size_t>(cluster)] += scheduler.is_narrow;
    }
    EXPECT_FALSE(soon.template go<true>(p, tile));
  }
  return rows;
}

// Every element lies in one tile, and only the last columns' tiles reach beyond n.
template <class Config>
void expect_covered(int m, int n) {
  SCOPED_TRACE(fmt::format("{}x{} in {}x{}", m, n, Config::kTileM, Config::kTileN));
  int num_ctas = 0;
  const abi::GemmParams p = params_of<Config>(m, n, &num_ctas);
  std::vector<int> num_narrow;
  auto rows = schedule_all<Config>(p, num_ctas, num_narrow);
  constexpr int kRows = Config::kTileM * Config::Producer::kClusterM;
  ASSERT_EQ(static_cast<int>(rows.size()), (m + kRows - 1) / kRows * Config::Producer::kClusterM);
  int first_row = 0;
  for (auto& [row, tiles] : rows) {
    EXPECT_EQ(row, first_row);
    first_row += Config::kTileM;
    std::sort(tiles.begin(), tiles.end(),
              [](const Placed& a, const Placed& b) { return a.n < b.n; });
    int column = 0;
    for (const Placed& tile : tiles) {
      EXPECT_EQ(tile.n, column);
      EXPECT_LT(tile.n, n);
      column += tile.width;
    }
    EXPECT_GE(column, n);
    if (*std::max_element(num_narrow.begin(), num_narrow.end()) > 0) {
      EXPECT_EQ(column, n);  // two widths add up to it
    }
  }
}

TEST(Sm90TileScheduler, TilesOfOneWidthCoverTheResultOnce) {
  for (const int m : {1, 127, 128, 2049, 5000}) {
    for (const int n : {1, 129, 4096, 5001}) {
      expect_covered<Tiles<128, 128, false>>(m, n);
      expect_covered<Tiles<64, 160, false>>(m, n);
      expect_covered<Tiles<192, 128, false>>(m, n);
      expect_covered<Tiles<128, 256, false, 2>>(m, n);
    }
  }
}

TEST(Sm90TileScheduler, TilesOfTwoWidthsCoverTheResultOnce) {
  for (const int m : {1, 127, 2048, 4096, 5000}) {
    for (const int n : {8, 120, 184, 4096, 5000, 5001, 8192}) {
      expect_covered<Tiles<128, 128, true>>(m, n);
      expect_covered<Tiles<128, 192, true>>(m, n);
      expect_covered<Tiles<256, 128, true, 2>>(m, n);
    }
  }
}

// A CTA with more than its share of wide tiles would be the last one to end.
TEST(Sm90TileScheduler, NarrowTilesAreDealtOutEvenly) {
  using Config = Tiles<128, 128, true>;
  int num_ctas = 0;
  const abi::GemmParams p = params_of<Config>(4096, 4096, &num_ctas);
  std::vector<int> num_narrow;
  schedule_all<Config>(p, num_ctas, num_narrow);
  const auto [least, most] = std::minmax_element(num_narrow.begin(), num_narrow.end());
  EXPECT_GT(*most, 0);
  EXPECT_LE(*most - *least, 1);
}

}  // namespace
}  // namespace epifuse::sm90
