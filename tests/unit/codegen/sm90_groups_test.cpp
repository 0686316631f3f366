// Finds the tiles of groups of rows (kernels/sm90/sequence.cuh) on the host, for all CTAs.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <map>
#include <random>
#include <tuple>
#include <type_traits>
#include <vector>

#include "codegen/sm90/dense.h"
#include "cuda_on_host.h"
#include "ir/text.h"
#include "kernels/sm90/sequence.cuh"
#include "tests/unit/targets/reference_device.h"

namespace epifuse::sm90 {
namespace {

template <int kM, int kN, bool kPadded = false, int kCluster = 1>
struct Tiles : UsualConfig {
  static constexpr int kTileM = kM, kTileN = kN;
  using Scheduler = std::conditional_t<kPadded, PaddedGroups, GroupedProducts>;
  using Producer = Multicast<UsualConfig::Producer, kCluster, 1>;
};

// Ends, or counts of padded groups, of uneven groups: some empty, one of all that is left.
struct Routing {
  std::vector<int> integers;
  int num_rows;  // that there are, of a padded group
  bool is_padded;

  int first(std::size_t group) const { return is_padded || group == 0 ? 0 : integers[group - 1]; }
};

Routing routing(std::mt19937& random, int num_groups, int num_rows, bool is_padded) {
  Routing out{{}, num_rows, is_padded};
  for (int g = 0; g < num_groups; ++g) {
    out.integers.push_back(random() % 3 == 0 ? 0 : static_cast<int>(random() % (num_rows + 1u)));
  }
  if (!is_padded) std::sort(out.integers.begin(), out.integers.end());
  return out;
}

template <class Config>
abi::GemmParams params_of(const Routing& routing, int n, int least_rows, int* num_ctas) {
  codegen::sm90::Config config;
  config.tile_m = Config::kTileM;
  config.tile_n = Config::kTileN;
  config.cluster_m = Config::Producer::kClusterM;
  const auto groups = static_cast<std::int64_t>(routing.integers.size());
  const codegen::GemmSizes sizes = routing.is_padded
                                       ? codegen::GemmSizes{groups, routing.num_rows, n, 64}
                                       : codegen::GemmSizes{1, routing.num_rows, n, 64, groups};
  const codegen::sm90::Tiling tiling =
      codegen::sm90::tile(config, sizes, targets::reference_gpu().limits);
  abi::GemmParams p{};
  p.m = routing.num_rows;
  p.n = n;
  p.raster = tiling.raster;
  p.least_rows = least_rows;
  p.groups = {routing.integers.data(), 1, static_cast<int>(groups), 0};
  *num_ctas = static_cast<int>(tiling.num_ctas);
  return p;
}

using Place = std::tuple<int, int, int>;  // group, row, column

// How much a CTA multiplies: 2 for a tile, 1 for a short one.
struct Work {
  std::map<Place, int> written;  // times
  int fewest = std::numeric_limits<int>::max(), most = 0;
};

template <class Config>
Place place_of(const abi::GemmParams& p, const Routing& routing, const AnnouncedTile& tile) {
  const int end = routing.integers[static_cast<std::size_t>(tile.group)];
  EXPECT_EQ(tile.row_end, end);
  EXPECT_EQ(static_cast<bool>(tile.is_short),
            kHasShortTiles<Config> && end - tile.m < p.least_rows);
  return {tile.group, tile.m, tile.n};
}

// Consumers take turns at what is announced.
template <class Config>
void schedule_cta(const abi::GemmParams& p, const Routing& routing, Work& work) {
  TileSequence<Config> sequence(p);
  int multiplied = 0;
  while (true) {
    const AnnouncedTile tile = sequence.next(p);
    if (!tile.exists) break;
    const Place place = place_of<Config>(p, routing, tile);
    ++work.written[place];
    multiplied += tile.is_short ? 1 : 2;
  }
  EXPECT_FALSE(sequence.is_over());
  EXPECT_FALSE(sequence.next(p).exists);
  EXPECT_TRUE(sequence.is_over()) << "an end for each consumer";
  work.fewest = std::min(work.fewest, multiplied);
  work.most = std::max(work.most, multiplied);
}

template <class Config>
void expect_covered(const Routing& routing, int n, int least_rows = kBlockRows + 1) {
  SCOPED_TRACE(fmt::format("{} groups of {} rows, {} columns, tiles from {} rows on",
                           routing.integers.size(), routing.num_rows, n, least_rows));
  int num_ctas = 0;
  const abi::GemmParams p = params_of<Config>(routing, n, least_rows, &num_ctas);
  gridDim.x = static_cast<unsigned>(num_ctas);
  Work work;
  for (int cta = 0; cta < num_ctas; ++cta) {
    blockIdx.x = static_cast<unsigned>(cta);
    device_on_host::cluster_rank = static_cast<unsigned>(cta % Config::Producer::kClusterM);
    schedule_cta<Config>(p, routing, work);
  }
  const bool are_in_pairs = (n + Config::kTileN - 1) / Config::kTileN % 2 == 0;
  if (are_in_pairs || least_rows == 1) {  // all short tiles there are
    EXPECT_LE(work.most - work.fewest, 2) << "as much for each CTA";
  }
  std::size_t num_tiles = 0;
  constexpr int kRows = Config::kTileM * Config::Producer::kClusterM;
  for (std::size_t g = 0; g < routing.integers.size(); ++g) {
    const int first = routing.first(g), end = routing.integers[g];
    const int rows = (end - first + kRows - 1) / kRows * Config::Producer::kClusterM;
    for (int row = 0; row < rows; ++row) {
      for (int column = 0; column < n; column += Config::kTileN, ++num_tiles) {
        const Place place{static_cast<int>(g), first + row * Config::kTileM, column};
        EXPECT_EQ(work.written[place], 1) << fmt::format("group {}, tile {}, {}", g, row, column);
      }
    }
  }
  EXPECT_EQ(work.written.size(), num_tiles);
}

template <bool kPadded>
void expect_all_covered() {
  std::mt19937 random(7);
  for (const int num_groups : {1, 2, 8, 40, 512}) {
    for (const int num_rows : {1, 130, 2000}) {
      const Routing each = routing(random, num_groups, num_rows, kPadded);
      for (const int n : {1, 384, 1000, 1024}) {
        expect_covered<Tiles<128, 128, kPadded>>(each, n);
        expect_covered<Tiles<64, 96, kPadded>>(each, n);
        expect_covered<Tiles<192, 128, kPadded>>(each, n);
        expect_covered<Tiles<192, 128, kPadded>>(each, n, 1);
        expect_covered<Tiles<128, 192, kPadded, 2>>(each, n);
      }
    }
  }
}

TEST(Sm90Groups, TilesCoverTheRowsOfEachGroupOnce) { expect_all_covered<false>(); }
TEST(Sm90Groups, TilesCoverTheRowsOfPaddedGroupsOnce) { expect_all_covered<true>(); }

TEST(Sm90Groups, NoGroupsAndNoRowsHaveNoTiles) {
  for (const Routing& none : {Routing{{}, 100, false}, Routing{{0, 0, 0}, 100, false}}) {
    expect_covered<Tiles<128, 128>>(none, 256);
  }
}

// What lies outside of the rows there are is not walked, whatever the integers say.
TEST(Sm90Groups, WrongEndsStayWithinTheRows) {
  const std::vector<int> ends{-5, 300, 20, 1 << 30, -1};
  abi::GemmParams p{};
  p.m = 200;
  p.n = 128;
  p.raster = 16;
  p.least_rows = kBlockRows + 1;
  p.groups = {ends.data(), 1, static_cast<int>(ends.size()), 0};
  gridDim.x = 1;
  blockIdx.x = 0;
  TileScheduler<Tiles<128, 128>> scheduler;
  int num_tiles = 0;
  for (; scheduler.go(p, num_tiles); ++num_tiles) {
    EXPECT_GE(scheduler.m, 0);
    EXPECT_LE(scheduler.group.row_end, p.m);
  }
  EXPECT_EQ(num_tiles, 2);
}

// TMA's boxes start at multiples of 16 bytes, groups at any row.
TEST(Sm90Groups, TakesRowsThatAreContiguousAlongK) {
  const auto code = [](const std::string& rows, const std::string& groups) -> std::string {
    const plan::Plan plan = plan::make_plan(
        ir::parse("graph g(x: bf16" + rows + ", w: bf16[G, K, N], " + groups +
                  ": i32[G]) {\n  y = grouped_matmul x, w, " + groups + "\n  return y\n}\n"),
        {});
    const auto no = codegen::sm90::why_not(plan, std::get<plan::FusedGemm>(plan.steps.front()),
                                           *targets::find_target("sm_90a"));
    return no ? no->code : "";
  };
  EXPECT_EQ(code("[T, K]", "ends"), "");
  EXPECT_EQ(code("[T, K] strides [1, T]", "ends"), "a_not_k_major");
  EXPECT_EQ(code("[G, M, K] strides [L, 1, M]", "counts"), "");
}

}  // namespace
}  // namespace epifuse::sm90
