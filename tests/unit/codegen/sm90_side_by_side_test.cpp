// Launches of several products of one A by tiles of the Hopper GEMM: the tile scheduler of
// kernels/sm90/tile_scheduler.cuh runs on the host on their parameters, for all CTAs.
#include "codegen/side_by_side.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <set>
#include <tuple>
#include <type_traits>
#include <vector>

#include "codegen/sm90/dense.h"
#include "cuda_on_host.h"
#include "ir/text.h"
#include "kernels/sm90/tile_scheduler.cuh"
#include "tests/unit/targets/reference_device.h"

namespace epifuse {
namespace {

constexpr std::int64_t kRows = 50, kManyRows = 700, kK = 192;
constexpr const char* kThree =
    "graph g(x: bf16[M, K], a: bf16[N, K], b: bf16[L, K], c: bf16[H, K], s: bf16[N], t: bf16[L], "
    "u: bf16[H]) {\n  h = matmul x, a^T\n  y = add h, s\n  i = matmul x, b^T\n  z = add i, t\n"
    "  j = matmul x, c^T\n  w = add j, u\n  return y, z, w\n}\n";

using codegen::sm90::Config;
const targets::TargetInfo& hopper() { return *targets::find_target("sm_90a"); }

// Three products of these columns, bound to addresses that are never read.
struct Case {
  plan::Plan plan = plan::make_plan(ir::parse(kThree), {});
  codegen::Bound bound;
  std::vector<int> columns;
  std::int64_t rows;

  explicit Case(const std::vector<int>& given, std::int64_t num_rows = kRows)
      : columns(given), rows(num_rows) {
    bound.sizes = {{"M", rows}, {"K", kK}, {"N", given[0]}, {"L", given[1]}, {"H", given[2]}};
    bound.tensors.resize(plan.graph.nodes.size());
    bound.scalars.resize(bound.tensors.size());
    char* memory = reinterpret_cast<char*>(std::uintptr_t{1} << 20);
    for (std::size_t id = 0; id < bound.tensors.size(); ++id) {
      const auto shape = ir::eval(plan.graph.nodes[id].type.shape, bound.sizes);
      bound.tensors[id] = {memory + (id << 24), {0, shape, TensorView::dense_strides(shape)}};
    }
  }
  const plan::FusedGemm& step(std::size_t i) const {
    return std::get<plan::FusedGemm>(plan.steps[i]);
  }
  std::vector<codegen::Launch> alone(const Config& config) const {
    std::vector<codegen::Launch> out;
    for (std::size_t i = 0; i < columns.size(); ++i) {
      out.push_back(
          codegen::sm90::launch(plan, step(i), config, {}, bound, targets::reference_gpu().limits));
    }
    return out;
  }
  codegen::Launch launch(const Config& config) const {
    return kind().launch(alone(config), codegen::GemmConfig(config),
                         targets::reference_gpu().limits);
  }
  const codegen::SideBySideKind& kind() const {
    return codegen::sm90::side_by_side().kinds[rows == kRows ? 1 : 2];
  }
  std::vector<Config> configs() const {
    std::vector<Config> out;
    for (const auto& config : kind().configs(step(0), hopper())) {
      out.push_back(config.as<Config>());
    }
    return out;
  }
};

abi::GemmSideBySideParams params_of(const codegen::Launch& launch) {
  abi::GemmSideBySideParams out;
  EXPECT_EQ(launch.params.size(), sizeof out);
  std::memcpy(static_cast<void*>(&out), launch.params.data(), sizeof out);
  return out;
}

// The tiles of one part, in clusters.
int tiles_of(const Config& config, std::int64_t rows, int columns) {
  const auto in = [](std::int64_t all, int each) {
    return static_cast<int>((all + each - 1) / each);
  };
  return in(rows, config.tile_m * config.cluster_m) * in(columns, config.tile_n * config.cluster_n);
}

void expect_launches_of_steps(const Case& three) {
  for (const Config& config : three.configs()) {
    SCOPED_TRACE(print(config));
    const std::vector<codegen::Launch> alone = three.alone(config);
    const codegen::Launch all = three.launch(config);
    const abi::GemmSideBySideParams p = params_of(all);
    std::size_t num_maps = 0;
    int tiles = 0;
    for (std::size_t i = 0; i < alone.size(); ++i) {
      abi::GemmParams part = p.parts[i], own;
      std::memcpy(static_cast<void*>(&own), alone[i].params.data(), sizeof own);
      part.lets_next_start = own.lets_next_start;
      EXPECT_EQ(std::memcmp(&part, &own, sizeof own), 0) << i;
      for (const codegen::TensorMapRequest& map : alone[i].maps) {
        const codegen::TensorMapRequest& placed = all.maps.at(num_maps++);
        EXPECT_EQ(placed.offset, map.offset + i * sizeof(abi::GemmParams));
        EXPECT_EQ(placed.data, map.data);
        EXPECT_EQ(placed.rows, map.rows);
      }
      tiles += tiles_of(config, three.rows, three.columns[i]);
      EXPECT_EQ(p.ends[i], tiles);
    }
    EXPECT_EQ(all.maps.size(), num_maps);
    EXPECT_EQ(p.ends[abi::kMostSideBySide - 1], tiles);
    EXPECT_EQ(all.smem_bytes, alone[0].smem_bytes);
    const int cluster = config.split_k * config.cluster_m * config.cluster_n;
    EXPECT_EQ(all.cluster, static_cast<unsigned>(cluster));
    EXPECT_EQ(all.grid % all.cluster, 0);
  }
}

TEST(Sm90SideBySide, EachPartIsTheLaunchOfItsStep) {
  expect_launches_of_steps(Case({200, 72, 520}));
  expect_launches_of_steps(Case({200, 72, 520}, kManyRows));
}

// Part, and the first row and column of a tile in it.
using Place = std::tuple<std::ptrdiff_t, int, int>;

template <int kM, int kN>
struct Tiles : sm90::UsualConfig {
  static constexpr int kTileM = kM, kTileN = kN;
  using Scheduler = sm90::SideBySide;
};

// The tiles of all CTAs, as the producer and as both consumers find them.
template <int kM, int kN>
void expect_covered(const std::vector<int>& columns, std::int64_t rows = kRows) {
  SCOPED_TRACE(fmt::format("{} {} {} in {}x{}", columns[0], columns[1], columns[2], kM, kN));
  const Case three(columns, rows);
  Config config;
  config.tile_m = kM, config.tile_n = kN, config.stages = 4, config.side_by_side = true;
  const codegen::Launch launch = three.launch(config);
  const abi::GemmSideBySideParams p = params_of(launch);
  std::multiset<Place> produced, consumed;
  gridDim.x = launch.grid;
  for (unsigned cta = 0; cta < launch.grid; ++cta) {
    blockIdx.x = cta;
    sm90::TileScheduler<Tiles<kM, kN>> tiles;
    const auto place = [&](const auto& at) {
      return Place(at.problem.params - p.parts, at.m, at.n);
    };
    int tile = tiles.first();
    for (; tiles.go(p.parts[0], tile); tile += tiles.step()) produced.insert(place(tiles));
    for (int consumer = 0; consumer < 2; ++consumer) {
      sm90::ConsumerScheduler<Tiles<kM, kN>> own;
      for (bool more = own.begin(p.parts[0], consumer); more; more = own.next(p.parts[0])) {
        consumed.insert(place(own));
      }
    }
  }
  std::multiset<Place> expected;
  for (std::size_t i = 0; i < columns.size(); ++i) {
    for (int m = 0; m < rows; m += kM) {
      for (int n = 0; n < columns[i]; n += kN) expected.emplace(i, m, n);
    }
  }
  EXPECT_EQ(produced, expected);
  EXPECT_EQ(consumed, expected);
}

TEST(Sm90SideBySide, TilesCoverEveryPartOnce) {
  expect_covered<64, 32>({2048, 512, 512});
  expect_covered<64, 32>({8, 16, 24});
  expect_covered<64, 48>({9000, 48, 1000});
  expect_covered<64, 256>({40, 40000, 264});
  expect_covered<64, 96>({896, 128, 128}, 200);
  expect_covered<128, 128>({4096, 1024, 1000}, 5000);  // bands of 2048 rows
  expect_covered<192, 80>({40, 4000, 8}, 2049);
}

TEST(Sm90SideBySide, AGridIsOfAllTilesUpToAWave) {
  const Case three({200, 72, 520});
  const int num_sms = targets::reference_gpu().limits.num_sms;
  for (const Config& config : three.configs()) {
    SCOPED_TRACE(print(config));
    const codegen::Launch launch = three.launch(config);
    const int tiles = params_of(launch).ends[2] * config.split_k;
    EXPECT_EQ(static_cast<int>(launch.grid), tiles);
    EXPECT_EQ(params_of(launch).parts[0].lets_next_start, 1);
  }
  const Case large({9000, 72, 5200});
  Config config = large.configs().front();
  config.tile_n = 32;
  const codegen::Launch launch = large.launch(config);
  EXPECT_EQ(static_cast<int>(launch.grid), num_sms);
  EXPECT_EQ(params_of(launch).parts[0].lets_next_start, 0);
}

// Of queries, keys and values, and of LoRA, what was ahead of all, or within 1.5 % of it
// (H200; 2026-11-26 of 64 rows, 2026-11-28 of more).
TEST(Sm90SideBySide, ExpectsLeastOfWhatWasFastest) {
  const auto chosen = [&](std::int64_t k, std::int64_t n, std::int64_t l, std::int64_t m = 64) {
    const Case three({200, 72, 520}, m == 64 ? kRows : kManyRows);
    const std::vector<codegen::GemmSizes> parts{{1, m, n, k}, {1, m, l, k}, {1, m, l, k}};
    const std::vector<Config> configs = three.configs();
    return print(*std::ranges::min_element(configs, {}, [&](const Config& config) {
      return three.kind().expected_us(three.step(0), codegen::GemmConfig(config), parts,
                                      targets::reference_gpu());
    }));
  };
  EXPECT_EQ(chosen(2048, 2048, 512), "one-consumer 64x48, 15 stages, split-K 2");
  EXPECT_EQ(chosen(3584, 3584, 512), "one-consumer 64x80, 11 stages, split-K 2");
  EXPECT_EQ(chosen(4096, 4096, 1024), "ping-pong 64x48, 15 stages");
  EXPECT_EQ(chosen(2048, 64, 64), "one-consumer 64x32, 16 stages, split-K 4");
  EXPECT_EQ(chosen(4096, 4096, 1024, 256), "ping-pong 128x96, 6 stages");
  EXPECT_EQ(chosen(2048, 2048, 512, 1024), "cooperative 128x208, 4 stages, cluster 2x1");
  EXPECT_EQ(chosen(8192, 8192, 1024, 512), "cooperative 256x160, 4 stages, cluster 2x1");
  EXPECT_EQ(chosen(4096, 4096, 1024, 2048), "cooperative 128x256, 4 stages, cluster 2x1");
}

TEST(Sm90SideBySide, TheKernelTakesTheFirstPart) {
  const Case three({200, 72, 520});
  const codegen::KernelSource source = three.kind().source(
      three.plan, three.step(0), three.kind().configs(three.step(0), hopper()).front(), hopper());
  EXPECT_EQ(source.entry, "epifuse_side_by_side_bias");
  for (const char* text : {"using Scheduler = sm90::SideBySide;",
                           "const __grid_constant__ epifuse::abi::GemmSideBySideParams p",
                           "sm90::dense<generated::Config, generated::Epilogue>(p.parts[0]);"}) {
    EXPECT_NE(source.text.find(text), std::string::npos) << text;
  }
}

// What is one row for all parts is the first one's: nothing by hand, no batch, no groups.
TEST(Sm90SideBySide, LeavesOutWhatPartsDoNotShare) {
  const auto num_configs = [](const char* text) {
    const plan::Plan plan = plan::make_plan(ir::parse(text), {});
    const auto& step = std::get<plan::FusedGemm>(plan.steps.front());
    const auto& kinds = codegen::sm90::side_by_side().kinds;
    return std::pair(kinds[1].configs(step, hopper()).size(),
                     kinds[2].configs(step, hopper()).size());
  };
  const std::pair<std::size_t, std::size_t> none;
  EXPECT_EQ(num_configs(kThree), (std::pair<std::size_t, std::size_t>(22, 64)));
  EXPECT_EQ(num_configs("graph g(x: bf16[2, M, 64], a: bf16[2, 64, 64]) {\n  y = matmul x, a\n"
                        "  return y\n}\n"),
            none)
      << "a batch";
  EXPECT_EQ(num_configs("graph g(x: bf16[M, 64], a: bf16[64, 64]) {\n  h = matmul x, a\n"
                        "  y = gt h, 0\n  return y\n}\n"),
            none)
      << "a result of bools";
}

}  // namespace
}  // namespace epifuse
