// Which kernels of the cp.async + mma.sync GEMM tensors ask for, and what their launches say.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "codegen/family_row.h"
#include "codegen/sm80/gemm.h"
#include "epifuse/error.h"
#include "epifuse/tensor.h"
#include "ir/text.h"
#include "kernels/abi.h"
#include "tests/unit/codegen/sm80_graphs.h"

namespace epifuse::codegen {
namespace {

constexpr const char* kPromoted =
    "graph g(x: e4m3[M, K], w: e4m3[N, K]) {\n"
    "  y = matmul x, w^T -> bf16 promoted\n  return y\n}\n";
constexpr const char* kGates =
    "graph g(x: bf16[M, K], v: bf16[N, K], u: bf16[N, K]) {\n"
    "  g0 = matmul x, v^T\n  u0 = matmul x, u^T\n  g1 = silu g0\n  y = mul g1, u0\n"
    "  return y\n}\n";
constexpr const char* kRowSum =
    "graph g(x: bf16[M, K], w: bf16[N, K]) {\n"
    "  h = matmul x, w^T -> f32\n  y = row_sum h\n  return y\n}\n";

class Sm80Launch : public ::testing::Test {
 protected:
  // Rows of every tensor are `padding` elements longer than dense ones.
  void bind(const char* text, const Sizes& sizes, std::int64_t padding = 0) {
    plan_ = plan::make_plan(ir::parse(text), {});
    bound_ = {};
    bound_.sizes = sizes;
    bound_.tensors.resize(plan_.graph.nodes.size());
    bound_.scalars.resize(bound_.tensors.size());
    char* memory = reinterpret_cast<char*>(std::uintptr_t{1} << 20);  // never read
    for (std::size_t id = 0; id < bound_.tensors.size(); ++id) {
      const std::vector<std::int64_t> shape = ir::eval(plan_.graph.nodes[id].type.shape, sizes);
      std::vector<std::int64_t> longer = shape;
      longer.back() += padding;
      bound_.tensors[id] = {memory + (id << 24), {0, shape, TensorView::dense_strides(longer)}};
    }
  }
  const plan::FusedGemm& step() const { return std::get<plan::FusedGemm>(plan_.steps.front()); }
  sm80::Variant variant() const { return sm80::variant(plan_, step(), bound_); }
  Launch launch(const sm80::Config& config) const {
    return sm80::launch(plan_, step(), config, variant(), bound_, {});
  }
  abi::CopiedGemmParams params(const Launch& launch) const {
    abi::CopiedGemmParams out{};
    EXPECT_LE(launch.params.size(), sizeof out);
    std::memcpy(static_cast<void*>(&out), launch.params.data(), launch.params.size());
    return out;
  }

  plan::Plan plan_;
  Bound bound_;
  const sm80::Config small_{64, 64, 32, 32, 64, 3};
};

TEST_F(Sm80Launch, DescribesTheOperandsOfADenseProduct) {
  bind(kResidual, {{"M", 130}, {"N", 72}, {"K", 40}});
  EXPECT_EQ(variant(), sm80::Variant{});
  const Launch launch = this->launch(small_);
  EXPECT_EQ(launch.grid, 3u * 2u);
  EXPECT_EQ(launch.block, 128u);
  EXPECT_EQ(launch.smem_bytes, 3u * 128u * 64u);
  EXPECT_EQ(launch.cluster, 1u);
  EXPECT_TRUE(launch.maps.empty());
  const abi::CopiedGemmParams p = params(launch);
  EXPECT_EQ(p.gemm.m, 130);
  EXPECT_EQ(p.gemm.n, 72);
  EXPECT_EQ(p.gemm.k, 40);
  EXPECT_EQ(p.a.row_stride, 40);
  EXPECT_EQ(p.b.row_stride, 40);
  EXPECT_EQ(p.b.col_stride, 1);
  EXPECT_EQ(p.gemm.plain_tiles[0].row_stride, 72);
  EXPECT_EQ(p.gemm.non_tma_stores[0].row_stride, 72);
}

TEST_F(Sm80Launch, StartsPersistentCtasOnceForAllTiles) {
  const targets::TargetInfo& target = *targets::find_target("sm_80");
  constexpr std::int64_t kSms = 10;
  targets::DeviceLimits limits;
  limits.num_sms = kSms;
  int count = 0;
  for (const std::int64_t m : {130, 13000}) {
    bind(kResidual, {{"M", m}, {"N", 720}, {"K", 40}});
    for (const sm80::Config& config : sm80::configs(step(), target)) {
      if (!print(config).ends_with(", persistent")) continue;
      ++count;
      const std::int64_t tiles =
          sm80::tile(config, {1, m, 720, 40, 0}, static_cast<int>(kSms)).tiles;
      const Launch launch = sm80::launch(plan_, step(), config, variant(), bound_, limits);
      EXPECT_EQ(launch.grid, std::min(tiles, kSms * config.ctas)) << print(config);
      const int stages = (config.tile_m + config.tile_n) * config.step_bytes * config.stages;
      EXPECT_GE(launch.smem_bytes, stages + 4 * 16 * (config.warp_n + 8) * 4) << "of four warps";
    }
  }
  EXPECT_GE(count, 2 * 5);
}

TEST_F(Sm80Launch, TakesManyProblemsByPersistentKernels) {
  const targets::TargetInfo& target = *targets::find_target("sm_86");
  bind(kResidual, {{"M", 130}, {"N", 72}, {"K", 40}});
  const PointerArrayFunctions& functions = sm80::pointer_arrays();
  const auto configs =
      configs_as<sm80::Config>(functions.configs(opaque(sm80::configs(step(), target))));
  ASSERT_GT(configs.size(), 5u);
  targets::DeviceLimits limits;
  limits.num_sms = 10;
  const void* const data[] = {nullptr, nullptr, nullptr};
  BoundPointerArrays problems;
  problems.count = 3;
  problems.symbols = {"M", "N", "K"};
  problems.tensors.resize(plan_.graph.nodes.size());
  problems.scalars.resize(plan_.graph.nodes.size());
  for (BoundPointerArrays::Tensor& tensor : problems.tensors) tensor.data = data;
  char workspace[1];
  for (const sm80::Config& config : configs) {
    SCOPED_TRACE(print(config));
    const Launch usual = sm80::launch(plan_, step(), config, {}, bound_, limits);
    const PointerArrayLaunches launches =
        functions.launches(plan_, GemmConfig(config), usual, problems, limits, workspace);
    EXPECT_EQ(launches.describe.grid, 3u);
    EXPECT_EQ(launches.product.grid, 10u * static_cast<unsigned>(config.ctas));
    EXPECT_EQ(launches.product.block, usual.block);
    EXPECT_EQ(launches.product.smem_bytes, usual.smem_bytes);
    abi::ProblemList all{};
    ASSERT_EQ(launches.product.params.size(), sizeof all);
    std::memcpy(&all, launches.product.params.data(), sizeof all);
    EXPECT_EQ(static_cast<const void*>(all.problems), workspace);
    EXPECT_EQ(all.count, 3);
    abi::DescribeParams describe{};
    ASSERT_EQ(launches.describe.params.size(), sizeof describe);
    std::memcpy(static_cast<void*>(&describe), launches.describe.params.data(), sizeof describe);
    EXPECT_EQ(describe.usual.raster, params(usual).gemm.raster);
    EXPECT_EQ(describe.tile_rows, config.tile_m);
    EXPECT_EQ(describe.tile_columns, config.tile_n);
    EXPECT_EQ(describe.size_columns[0], 2) << "K, M, N of M, N, K";
    EXPECT_EQ(describe.tensors[0].data, data);
  }
}

// So that they leave registers: other kernels of gates spill.
TEST_F(Sm80Launch, StagesHalfOfALargeWarpForManyGates) {
  const PointerArrayFunctions& functions = sm80::pointer_arrays();
  for (const char* name : {"sm_80", "sm_86", "sm_90a"}) {
    SCOPED_TRACE(name);
    bind(kGates, {{"M", 64}, {"N", 64}, {"K", 64}});
    const auto all = sm80::configs(step(), *targets::find_target(name));
    int num_large = 0, num_small = 0;
    for (const GemmConfig& config : functions.configs(opaque(all))) {
      const auto of_many = config.as<sm80::Config>();
      const bool is_large = of_many.warp_m == 64 && of_many.warp_n == 64;
      EXPECT_TRUE(!is_large || of_many.staged_blocks == 2) << print(of_many);
      ++(is_large ? num_large : num_small);
    }
    EXPECT_GT(num_large, 0);
    EXPECT_EQ(num_small, 2 * 3);
  }
}

TEST_F(Sm80Launch, CopiesAsMuchAtOnceAsAllRowsAllow) {
  for (const auto& [padding, bytes] :
       std::map<std::int64_t, int>{{8, 16}, {4, 8}, {2, 4}, {1, 2}}) {
    bind(kResidual, {{"M", 130}, {"N", 72}, {"K", 40}}, padding);
    EXPECT_EQ(variant().alignment_a, bytes);
    EXPECT_EQ(variant().alignment_b, bytes);
    EXPECT_EQ(variant().non_tma_loads, bytes < 8 ? 1u : 0u);  // vectors of four elements
    EXPECT_EQ(variant().non_tma_stores, bytes < 8 ? 1u : 0u);
    EXPECT_EQ(sm80::roles(variant()).are_misaligned(), bytes < 16);
  }
}

TEST_F(Sm80Launch, LeavesGatesWhoseWeightsHaveRowsApart) {
  for (const std::int64_t n : {72, 1}) {
    bind(kGates, {{"M", 130}, {"N", n}, {"K", 40}});
    EXPECT_FALSE(sm80::why_not_bound(plan_, step(), bound_));
    bound_.tensors[static_cast<std::size_t>(step().gemm.second_b.value)].layout.strides = {48, 1};
    const auto no = sm80::why_not_bound(plan_, step(), bound_);
    ASSERT_EQ(no.has_value(), n > 1) << "one row has no next one";
    if (!no) continue;
    EXPECT_EQ(no->code, "gates_apart");
    EXPECT_EQ(no->sentence,
              "rows of v are 40 elements apart and those of u 48, and both are copied by one "
              "distance.");
  }
}

TEST_F(Sm80Launch, ExchangesTheOperandsOfColumnMajorResults) {
  bind(kResidual, {{"M", 128}, {"N", 64}, {"K", 64}});
  for (const plan::Store& store : step().epilogue.stores) {
    bound_.tensors[static_cast<std::size_t>(store.value)].layout.strides = {1, 128};
  }
  for (const plan::Load& load : step().epilogue.loads) {
    if (load.access != plan::Access::tile) continue;
    bound_.tensors[static_cast<std::size_t>(load.value)].layout.strides = {1, 128};
  }
  EXPECT_TRUE(variant().swapped);
  EXPECT_EQ(variant().non_tma_stores, 0u);
  const abi::CopiedGemmParams p = params(launch(small_));
  EXPECT_EQ(p.gemm.m, 64);
  EXPECT_EQ(p.gemm.n, 128);
  EXPECT_EQ(p.gemm.non_tma_stores[0].row_stride, 128);
  EXPECT_EQ(p.gemm.cols[0].stride, 1);  // the bias
}

TEST_F(Sm80Launch, LeavesAPartOfARowForEachWarp) {
  bind(kRowSum, {{"M", 70}, {"N", 100}, {"K", 64}});
  const Partials of_rows = sm80::partials(step(), small_, {}, bound_.sizes, {});
  EXPECT_EQ(of_rows.num_parts, 4);  // of 32 columns
  EXPECT_EQ(of_rows.layout.shape, (std::vector<std::int64_t>{4, 70}));
  EXPECT_EQ(of_rows.bytes, 4u * 72u * 4u);
}

TEST_F(Sm80Launch, FitsTheSharedMemoryOfEveryTarget) {
  bind(kResidual, {{"M", 130}, {"N", 72}, {"K", 40}});
  for (const targets::TargetInfo& target : targets::all_targets()) {
    if (target.kind != DeviceKind::cuda) continue;
    EXPECT_FALSE(sm80::why_not(plan_, step(), target)) << target.name;
    std::set<std::string> names;
    for (const sm80::Config& config : sm80::configs(step(), target)) {
      EXPECT_LE(sm80::smem_bytes(config), target.smem_per_block_bytes);
      EXPECT_TRUE(names.insert(print(config)).second) << print(config);
    }
    EXPECT_GT(names.size(), 10u);
  }
}

TEST_F(Sm80Launch, LeavesSumsInScratchWhereKIsSplit) {
  bind(kResidual, {{"M", 130}, {"N", 72}, {"K", 400}});
  sm80::Config config = small_;
  EXPECT_EQ(sm80::scratch(step(), config, {}, bound_.sizes, {}).bytes, 0u);
  config.split_k = 4;
  EXPECT_EQ(print(config), "64x64 by 32x32, 32 deep, 3 stages, split-K 4");
  const Scratch scratch = sm80::scratch(step(), config, {}, bound_.sizes, {});
  EXPECT_EQ(scratch.zeros, 256u);  // counters of six tiles
  EXPECT_EQ(scratch.bytes, 256u + 6u * 4u * 64u * 64u * 4u);
  bound_.scratch = reinterpret_cast<void*>(std::uintptr_t{1} << 30);
  const Launch launch = this->launch(config);
  EXPECT_EQ(launch.grid, 6u * 4u);
  EXPECT_FALSE(launch.overlaps_previous) << "what clears the counters is no kernel";
  const abi::CopiedGemmParams p = params(launch);
  EXPECT_EQ(p.split.arrivals, bound_.scratch);
  EXPECT_EQ(p.split.data, static_cast<char*>(bound_.scratch) + 256);
  EXPECT_NE(sm80::source(plan_, step(), config, {}, *targets::find_target("sm_80"))
                .text.find("kSplitK = 4"),
            std::string::npos);
}

TEST_F(Sm80Launch, Multiplies8BitFloatsFromAdaOn) {
  bind(kMixed8Bits, {{"M", 64}, {"N", 64}, {"K", 64}});
  for (const char* name : {"sm_80", "sm_86", "sm_87"}) {
    const auto no = sm80::why_not(plan_, step(), *targets::find_target(name));
    ASSERT_TRUE(no.has_value()) << name;
    EXPECT_EQ(no->code, "operand_dtype");
    EXPECT_EQ(no->sentence,
              "x is e4m3, which " + std::string(name) + " has no instruction to multiply.");
  }
  for (const char* name : {"sm_89", "sm_90", "sm_90a", "sm_100", "sm_120"}) {
    EXPECT_FALSE(sm80::why_not(plan_, step(), *targets::find_target(name))) << name;
  }
}

TEST_F(Sm80Launch, NamesTheFormatsOf8BitOperands) {
  const targets::TargetInfo& ada = *targets::find_target("sm_89");
  const auto has = [&](std::string_view text) {
    return sm80::source(plan_, step(), small_, variant(), ada).text.find(text) != std::string::npos;
  };
  bind(kMixed8Bits, {{"M", 64}, {"N", 64}, {"K", 64}});
  EXPECT_TRUE(has("using Element = E4m3;"));
  EXPECT_TRUE(has("using ElementB = E5m2;"));
  EXPECT_FALSE(has("kPromotesSums"));
  bind(kPromoted, {{"M", 64}, {"N", 64}, {"K", 64}});
  EXPECT_FALSE(has("using ElementB"));
  EXPECT_TRUE(has("kPromotesSums = true"));
}

TEST_F(Sm80Launch, CopiesRowsOf8BitsThatStartAnywhere) {
  for (const auto& [padding, bytes] :
       std::map<std::int64_t, int>{{16, 16}, {8, 8}, {4, 4}, {2, 2}, {1, 1}}) {
    bind(kMixed8Bits, {{"M", 130}, {"N", 72}, {"K", 48}}, padding);
    EXPECT_EQ(variant().alignment_a, bytes);
    EXPECT_EQ(variant().alignment_b, bytes);
  }
}

// Where sums are promoted, more than 64 a thread would spill.
TEST_F(Sm80Launch, KeepsRegistersForWhatIsBesideTheSums) {
  const auto most_sums = [&](const char* target) {
    int most = 0;
    for (const sm80::Config& config : sm80::configs(step(), *targets::find_target(target))) {
      most = std::max(most, config.warp_m * config.warp_n / 32);
    }
    return most;
  };
  bind(kMixed8Bits, {{"M", 64}, {"N", 64}, {"K", 64}});
  EXPECT_EQ(most_sums("sm_89"), 128);
  EXPECT_EQ(most_sums("sm_100"), 128);
  bind(kPromoted, {{"M", 64}, {"N", 64}, {"K", 64}});
  EXPECT_EQ(most_sums("sm_89"), 64);
}

// Of 132 SMs with two CTAs each: 16 rows of tiles by 16.5 columns.
TEST_F(Sm80Launch, RunsASquareOfResultsAtOnce) {
  const GemmSizes sizes{1, 8192, 8192, 8192};
  sm80::Config config{128, 128, 64, 64, 64, 4};
  config.ctas = 2;
  EXPECT_EQ(sm80::tile(config, sizes, 132).raster, 16);
  EXPECT_EQ(sm80::tile({256, 128, 64, 64, 64, 4}, sizes, 132).raster, 8);
  EXPECT_EQ(sm80::tile({64, 256, 64, 64, 64, 4}, sizes, 1).raster, 2);
  bind(kResidual, {{"M", 8192}, {"N", 8192}, {"K", 64}});
  targets::DeviceLimits limits;
  limits.num_sms = 132;
  EXPECT_EQ(params(sm80::launch(plan_, step(), config, variant(), bound_, limits)).gemm.raster, 16);
}

TEST(Families, AreAskedWhereTheySuitOrAreNamed) {
  const targets::TargetInfo& hopper = *targets::find_target("sm_90a");
  const targets::TargetInfo& ampere = *targets::find_target("sm_80");
  const auto names = [](const std::vector<const KernelFamily*>& families) {
    std::vector<std::string_view> out;
    for (const KernelFamily* family : families) out.push_back(family->name);
    return out;
  };
  using Names = std::vector<std::string_view>;
  EXPECT_EQ(names(families_for(hopper)), Names{"sm90_dense"});
  EXPECT_EQ(names(families_for(hopper, "sm80")), Names{"sm80"});
  EXPECT_EQ(names(families_for(ampere)), Names{"sm80"});
  EXPECT_THROW(families_for(hopper, "sm70"), ArgumentError);
}

}  // namespace
}  // namespace epifuse::codegen
