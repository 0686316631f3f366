// The candidates of the Hopper GEMM that compute D^T while results stay as they are.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "codegen/sm90/dense.h"
#include "ir/text.h"
#include "kernels/abi.h"
#include "tests/unit/codegen/dense_bound.h"
#include "tests/unit/targets/reference_device.h"

namespace epifuse::codegen::sm90 {
namespace {

constexpr const char* kProduct = "x: bf16[M, K], w: bf16[N, K], b: bf16[N], r: bf16[M, N]";

struct Case {
  plan::Plan plan;
  explicit Case(const std::string& body, const std::string& parameters = kProduct)
      : plan(plan::make_plan(ir::parse("graph g(" + parameters + ") {\n" + body + "}\n"), {})) {}
  const plan::FusedGemm& step() const { return std::get<plan::FusedGemm>(plan.steps.front()); }
  std::vector<Config> swapped() const {
    std::vector<Config> out = configs(step(), *targets::find_target("sm_90a"));
    std::erase_if(out, [](const Config& config) { return !config.swapped; });
    return out;
  }
};

const std::string kResidual =
    "  h = matmul x, w^T\n  t = add h, b\n  y = add t, r\n  return t, y\n";

const TensorMapRequest* find_map(const Launch& launch, std::size_t offset) {
  const auto map = std::ranges::find(launch.maps, offset, &TensorMapRequest::offset);
  return map == launch.maps.end() ? nullptr : &*map;
}

// a is w, and columns of chunks are rows of memory, whose boxes end where a tile does.
TEST(Sm90Swapped, LaunchesWithOperandsExchangedAndChunksAsRowsOfMemory) {
  const Case residual(kResidual);
  const std::int64_t m = 1077, n = 2040;
  const Bound bound = dense_bound(residual.plan, {{"M", m}, {"N", n}, {"K", 512}});
  constexpr std::size_t kFull = offsetof(abi::GemmParams, full);
  int num_cut = 0;
  for (const Config& config : residual.swapped()) {
    SCOPED_TRACE(print(config));
    const Launch launch = sm90::launch(residual.plan, residual.step(), config, {}, bound,
                                       targets::reference_gpu().limits);
    const TensorMapRequest* const a = find_map(launch, offsetof(abi::GemmParams, a));
    const TensorMapRequest* const b = find_map(launch, offsetof(abi::GemmParams, b));
    ASSERT_TRUE(a != nullptr && b != nullptr);
    EXPECT_EQ(a->rows, n);
    EXPECT_EQ(b->rows, m);
    for (std::size_t i = 0; i < 2; ++i) {
      const std::size_t at = kFull + i * sizeof(abi::FullSizeMaps);
      const auto* store = find_map(launch, at + offsetof(abi::FullSizeMaps, store));
      const auto* cut = find_map(launch, at + offsetof(abi::FullSizeMaps, cut_store));
      ASSERT_NE(store, nullptr);
      EXPECT_EQ(store->rows, m);
      EXPECT_EQ(store->cols, n);
      EXPECT_EQ(store->row_stride, n);
      EXPECT_EQ(store->box_rows, 64);
      EXPECT_EQ(store->box_cols, 64);
      ASSERT_EQ(cut != nullptr, config.tile_n % 64 != 0);
      if (cut == nullptr) continue;
      ++num_cut;
      EXPECT_EQ(cut->box_rows, config.tile_n % 64);
      EXPECT_EQ(cut->box_cols, 64);
    }
    const auto* load = find_map(launch, kFull + offsetof(abi::FullSizeMaps, load));
    ASSERT_NE(load, nullptr);
    EXPECT_EQ(load->row_stride, n);
  }
  EXPECT_GT(num_cut, 10);
}

TEST(Sm90Swapped, AreOfChunksOf16BitElementsAlone) {
  EXPECT_GT(Case(kResidual).swapped().size(), 10u);
  for (const char* body : {
           "  h = matmul x, w^T -> f32\n  y = tanh h\n  return y\n",
           "  h = matmul x, w^T\n  c = col_sum h\n  return h, c\n",
           "  h = matmul x, w^T\n  c = row_max h\n  return h, c\n",
           "  h = matmul x, w^T\n  t = cast h -> e4m3\n  return t\n",
           "  h = matmul x, w^T\n  t = gt h, r\n  return t\n",
       }) {
    EXPECT_TRUE(Case(body).swapped().empty()) << body;
  }
  const std::string gates = "x: bf16[M, K], w: bf16[N, K], v: bf16[N, K]";
  EXPECT_TRUE(Case("  g = matmul x, w^T\n  u = matmul x, v^T\n  s = silu g\n  y = mul s, u\n"
                   "  return y\n",
                   gates)
                  .swapped()
                  .empty());
  const std::string integers = "x: i8[M, K], w: i8[N, K], s: bf16[N]";
  EXPECT_TRUE(Case("  h = matmul x, w^T -> bf16\n  t = mul h, s\n  return t\n", integers)
                  .swapped()
                  .empty());
  const std::string groups = "x: bf16[M, K], w: bf16[G, N, K], ends: i32[G]";
  EXPECT_TRUE(Case("  h = grouped_matmul x, w^T, ends\n  return h\n", groups).swapped().empty());
}

// Their chunks come and go by TMA, and operands as they are.
TEST(Sm90Swapped, TakeTheUsualVariantAlone) {
  const Case residual(kResidual);
  const targets::TargetInfo& target = *targets::find_target("sm_90a");
  const Variant others[] = {{.swapped = true},
                            {.misaligned_a = true},
                            {.misaligned_b = true},
                            {.non_tma_loads = 1},
                            {.non_tma_stores = 2, .copied_stores = 2}};
  for (const Config& config : residual.swapped()) {
    SCOPED_TRACE(print(config));
    EXPECT_TRUE(fitted(residual.step(), config, {}, target).has_value());
    for (const Variant& variant : others) {
      EXPECT_FALSE(fitted(residual.step(), config, variant, target)) << print(variant);
    }
  }
}

// The same kernel of the transposed problem takes as long.
TEST(Sm90Swapped, AreExpectedToTakeWhatTheTransposedProductDoes) {
  const Case product("  h = matmul x, w^T\n  y = relu h\n  return y\n");
  const auto us = [&](const Config& config, const GemmSizes& sizes) {
    return expected_us(product.step(), config, sizes, targets::reference_gpu());
  };
  for (Config config : product.swapped()) {
    SCOPED_TRACE(print(config));
    const double swapped = us(config, {1, 1024, 4096, 2048});
    config.swapped = false;
    EXPECT_NEAR(us(config, {1, 4096, 1024, 2048}), swapped, 0.01 * swapped);
  }
}

// Of an H100 (2026-11-27, `bench --sweep`): 21.3 us where the best of the others took 24.9, 26.4
// and 29.5, 37.0 and 41.3, 20.8 and 22.2; along N 17.2 and 19.4. Kernels for few rows took 8.2,
// these 9.0.
TEST(Sm90Swapped, AreChosenWhereTheyWereMeasuredAhead) {
  const targets::KnownDevice& known = *targets::find_device("NVIDIA H100 80GB HBM3");
  const targets::DeviceProfile h100{known.measured->limits, {}, &known};
  const auto chosen = [&](const Case& layer, const GemmSizes& sizes) {
    const KernelFamily& family = all_families().front();
    const auto all = family.configs(layer.step(), *targets::find_target("sm_90a"));
    return print(all[choose(family, layer.step(), all, sizes, h100)]);
  };
  const Case two("  h = matmul x, w^T\n  y = silu h\n  return h, y\n"),
      one("  h = matmul x, w^T\n  t = add h, b\n  y = softplus t\n  return y\n"),
      residual("  h = matmul x, w^T\n  y = add h, r\n  return y\n"),
      along_n("  h = matmul x, w\n  t = add h, b\n  y = gelu_erf t\n  return y\n",
              "x: bf16[M, K], w: bf16[K, N], b: bf16[N]");
  EXPECT_EQ(chosen(two, {1, 4594, 64, 3568}), "ping-pong 64x80, 9 stages, swapped");
  EXPECT_EQ(chosen(one, {1, 4717, 512, 2240}),
            "cooperative 128x144, 6 stages, cluster 2x1, swapped");
  EXPECT_EQ(chosen(residual, {1, 1077, 2040, 3528}),
            "cooperative 128x160, 5 stages, cluster 2x1, swapped");
  EXPECT_TRUE(chosen(along_n, {1, 9173, 64, 1344}).ends_with(", swapped"));
  EXPECT_EQ(chosen(residual, {1, 1576, 768, 3072}), "ping-pong 64x144, 6 stages, swapped");
  EXPECT_EQ(chosen(residual, {1, 1, 2048, 768}), "few rows 8x16, 8 warps, 2 CTAs an SM");
}

}  // namespace
}  // namespace epifuse::codegen::sm90
