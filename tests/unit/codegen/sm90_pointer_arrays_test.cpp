// Runs the tile scheduler of many problems (kernels/sm90/tile_scheduler.cuh) on the host, for all
// CTAs.
#include <gtest/gtest.h>

#include <map>
#include <random>
#include <tuple>
#include <type_traits>
#include <vector>

#include "cuda_on_host.h"
#include "kernels/sm90/tile_scheduler.cuh"

namespace epifuse::sm90 {
namespace {

template <int kM, int kN, bool kShareTile>
struct Tiles : UsualConfig {
  static constexpr int kTileM = kM, kTileN = kN;
  using Consumers = std::conditional_t<kShareTile, Cooperative, PingPong>;
  using Scheduler = ManyProblems;
};

constexpr int kCtas = 12;

// PointerArrays as kernels/common/pointer_arrays.cuh describes them: those done by hand have no
// tiles.
struct Described {
  std::vector<abi::Problem> problems;
  std::vector<abi::ProblemTiles> tiles;
  abi::PointerArrayGemmParams params{};

  template <class Config>
  void add(int m, int n, int k, bool is_by_hand) {
    abi::Problem problem{};
    problem.product.gemm.m = m;
    problem.product.gemm.n = n;
    problem.product.gemm.k = k;
    problem.product.gemm.raster = 3;
    problems.push_back(problem);
    const int count =
        (m + Config::kTileM - 1) / Config::kTileM * ((n + Config::kTileN - 1) / Config::kTileN);
    tiles.push_back({is_by_hand ? 0 : count, is_by_hand});
  }
  const abi::GemmParams& all() {
    params.problems = problems.data();
    params.tiles = tiles.data();
    params.count = static_cast<int>(problems.size());
    return params.usual;
  }
};

template <class Config>
Described random_pointer_arrays(std::mt19937& random, int count) {
  Described out;
  for (int i = 0; i < count; ++i) {
    const auto below = [&](unsigned most) { return static_cast<int>(random() % most); };
    out.add<Config>(below(3) == 0 ? 0 : below(700), below(900), below(400), below(5) == 0);
  }
  return out;
}

// Problem, first row and first column of a tile.
using Place = std::tuple<int, int, int>;

// What the producer brings to a CTA: tiles in order, and how many steps come before each.
template <class Config>
std::map<Place, int> produced(const abi::GemmParams& all) {
  std::map<Place, int> before;
  TileScheduler<Config> scheduler;
  int steps = 0;
  for (int tile = scheduler.first(); scheduler.go(all, tile); tile += scheduler.step()) {
    before[{scheduler.problem.problem, scheduler.m, scheduler.n}] = steps;
    steps += steps_of<Config>(params_of<Config>(all, scheduler)).count;
  }
  return before;
}

// A consumer's way through the ring, as Consumer::run goes it: each tile must be where the producer
// puts it.
template <class Config>
void consume(const abi::GemmParams& all, int consumer, const std::map<Place, int>& before,
             std::map<Place, int>& times) {
  ConsumerScheduler<Config> scheduler;
  bool more = scheduler.begin(all, consumer);
  int at = !Config::Consumers::kCooperative && consumer == 1 ? scheduler.steps_between : 0;
  while (more) {
    const Place place{scheduler.problem.problem, scheduler.m, scheduler.n};
    ASSERT_TRUE(before.contains(place));
    ASSERT_EQ(at, before.at(place));
    ++times[place];
    at += steps_of<Config>(params_of<Config>(all, scheduler)).count;
    more = scheduler.next(all);
    if (!Config::Consumers::kCooperative) at += scheduler.steps_between;
  }
}

template <class Config>
void check(int count, unsigned seed) {
  std::mt19937 random(seed);
  Described described = random_pointer_arrays<Config>(random, count);
  const abi::GemmParams& all = described.all();
  gridDim.x = kCtas;
  std::map<Place, int> times;
  for (blockIdx.x = 0; blockIdx.x < kCtas; ++blockIdx.x) {
    const std::map<Place, int> before = produced<Config>(all);
    for (int consumer = 0; consumer < 2; ++consumer) {
      consume<Config>(all, consumer, before, times);
    }
  }
  std::map<Place, int> expected;
  for (int i = 0; i < count; ++i) {
    const auto at = static_cast<std::size_t>(i);
    const abi::GemmParams& p = described.problems[at].product.gemm;
    if (described.tiles[at].is_by_hand) continue;
    for (int m = 0; m < p.m; m += Config::kTileM) {
      for (int n = 0; n < p.n; n += Config::kTileN) {
        expected[{i, m, n}] =
            Config::Consumers::kCooperative ? 2 : 1;  // both, or one of the consumers
      }
    }
  }
  EXPECT_EQ(times, expected);
}

TEST(ProblemScheduler, CoversEveryTileAndFindsItsStages) {
  for (const int count : {0, 1, 2, 7, 60}) {
    for (unsigned seed = 0; seed < 6; ++seed) {
      SCOPED_TRACE(testing::Message() << count << " problems, seed " << seed);
      check<Tiles<128, 128, false>>(count, seed);
      check<Tiles<64, 192, false>>(count, seed);
      check<Tiles<128, 256, true>>(count, seed);
    }
  }
}

}  // namespace
}  // namespace epifuse::sm90
