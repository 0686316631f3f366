// What the Hopper GEMM's model of time expects of groups of rows, beside what an H100 took of them
// (2026-11-27, `epifuse tune`, random ends, SwiGLU).
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>
#include <vector>

#include "base/ceil_div.h"
#include "codegen/family.h"
#include "codegen/sm90/dense.h"
#include "codegen/sm90/dense_memory.h"
#include "codegen/sm90/model_constants.h"
#include "ir/text.h"
#include "targets/device_profile.h"
#include "tests/unit/targets/reference_device.h"

namespace epifuse::codegen::sm90 {
namespace {

constexpr const char* kGate =
    "graph g(x: bf16[T, K], w: bf16[G, 2*N, K], ends: i32[G]) {\n"
    "  h = grouped_matmul x, w^T, ends\n  a = slice h [:, :N]\n  b = slice h [:, N:]\n"
    "  s = silu a\n  y = mul s, b\n  return y\n}\n";

// Of ends anywhere, on average.
double rows_of_tiles(std::int64_t rows, std::int64_t groups, std::int64_t rows_of_tile) {
  constexpr int kTimes = 400;
  std::mt19937_64 random(5);
  std::uniform_int_distribution<std::int64_t> end(0, rows);
  std::int64_t tiles = 0;
  for (int i = 0; i < kTimes; ++i) {
    std::vector<std::int64_t> ends(static_cast<std::size_t>(groups), rows);
    std::generate(ends.begin(), ends.end() - 1, [&] { return end(random); });
    std::ranges::sort(ends);
    for (std::size_t g = 0; g < ends.size(); ++g) {
      tiles += ceil_div(ends[g] - (g == 0 ? 0 : ends[g - 1]), rows_of_tile);
    }
  }
  return static_cast<double>(tiles) / kTimes;
}

TEST(Sm90GroupTimes, AsManyTilesAreExpectedAsRandomEndsGive) {
  constexpr std::int64_t kColumnsOfTiles = 8;
  for (const std::int64_t rows_of_group : {16, 64, 128, 165, 311, 900}) {
    for (const int rows_of_tile : {64, 128, 192, 256}) {
      constexpr std::int64_t kGroups = 64;
      Config config;
      config.tile_m = rows_of_tile;
      config.tile_n = 128;
      config.grouped = true;
      const GemmSizes sizes{1, rows_of_group * kGroups, kColumnsOfTiles * 128, 64, kGroups};
      const Tiling tiling = expected_tiling(config, sizes, targets::reference_gpu().limits);
      const double measured = rows_of_tiles(sizes.m, kGroups, rows_of_tile) * kColumnsOfTiles;
      EXPECT_NEAR(static_cast<double>(tiling.tiles), measured, 0.03 * measured)
          << rows_of_group << " rows by tiles of " << rows_of_tile;
      EXPECT_GE(tile(config, sizes, targets::reference_gpu().limits).tiles, tiling.tiles)
          << "what is launched is enough for all";
    }
  }
}

TEST(Sm90GroupTimes, WithoutGroupsTilesAreThoseThatAreThere) {
  Config config;
  config.tile_m = config.tile_n = 128;
  const GemmSizes sizes{3, 300, 1000, 64};
  EXPECT_EQ(expected_tiling(config, sizes, targets::reference_gpu().limits).tiles, 3 * 3 * 8);
}

class Gate {
 public:
  Gate()
      : plan_(plan::make_plan(ir::parse(kGate), {})),
        device_(*targets::find_device("NVIDIA H100 80GB HBM3")),
        profile_{device_.measured->limits, {}, &device_},
        configs_(family().configs(step(), *targets::find_target("sm_90a"))) {}

  double us(const std::string& name, const GemmSizes& sizes) const {
    const auto config = std::ranges::find(configs_, name, [](const auto& c) { return print(c); });
    EXPECT_NE(config, configs_.end()) << name;
    return family().expected_us(step(), *config, sizes, profile_);
  }
  std::string chosen(const GemmSizes& sizes) const {
    return print(configs_[choose(family(), step(), configs_, sizes, profile_)]);
  }

 private:
  static const KernelFamily& family() { return all_families().front(); }
  const plan::FusedGemm& step() const { return std::get<plan::FusedGemm>(plan_.steps.front()); }

  plan::Plan plan_;
  targets::KnownDevice device_;
  targets::DeviceProfile profile_;
  std::vector<GemmConfig> configs_;
};

// 9967 rows, 32 groups of 2 x 2696 columns, rows of 5200 bytes: 618 and 638 us by the first two,
// 896 and 1121 by the others. With rows of 5120 bytes (2688 columns) 509 by 128x192, 577 by 64x256.
constexpr const char* kInClusters[] = {"cooperative 256x160, 4 stages, cluster 1x2",
                                       "cooperative 128x256, 4 stages, cluster 2x1"};
constexpr const char* kAlone[] = {"ping-pong 128x192, 5 stages", "ping-pong 64x256, 5 stages"};

TEST(Sm90GroupTimes, WeightsOffLinesAreReadAgainByOtherRowsOfTiles) {
  const Gate gate;
  const GemmSizes off{1, 9967, 2696, 2600, 32}, on{1, 9967, 2688, 2560, 32};
  EXPECT_NE(std::ranges::find(kInClusters, gate.chosen(off)), std::end(kInClusters))
      << gate.chosen(off);
  for (const char* config : kInClusters) {
    EXPECT_GT(gate.us(kAlone[0], off), 1.05 * gate.us(config, off)) << config;
    EXPECT_GT(gate.us(kAlone[1], off), 1.2 * gate.us(config, off)) << config;
  }
  EXPECT_EQ(gate.chosen(on), kAlone[0]);
}

// 8 groups of two rows of tiles: 0.4 of the weights beyond L2 come once more.
TEST(Sm90GroupTimes, OfWeightsThatL2HoldsNothingIsReadAgain) {
  Config config;
  config.grouped = true;
  const ModelConstants c = constants_of(targets::reference_gpu());
  const Tiling tiling{.tiles = 8 * 2 * 16, .columns = 16};
  const auto bytes = [&](std::int64_t k, double lines) {
    return c.bytes_per_us * groups_apart_us(c, config, {8, 200, 2048, k, 0}, tiling, lines);
  };
  constexpr double kWeights = 2.0 * 8 * 2048 * 8200;
  EXPECT_NEAR(bytes(8200, 1.9), 0.4 * (kWeights - c.l2_bytes), 1);
  EXPECT_EQ(bytes(8200, 1), 0) << "rows on lines";
  EXPECT_EQ(bytes(1000, 1.9), 0) << "33 MB";
  config.grouped = false;
  EXPECT_EQ(bytes(8200, 1.9), 0) << "a batch";
}

}  // namespace
}  // namespace epifuse::codegen::sm90
