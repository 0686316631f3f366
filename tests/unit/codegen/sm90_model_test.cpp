// What the Hopper GEMM's model of time expects, beside what an H200 took (2026-11-26,
// `epifuse bench --sweep` of dense and of random products).
#include <gtest/gtest.h>

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "codegen/family.h"
#include "codegen/sm90/config.h"
#include "ir/text.h"
#include "targets/device_profile.h"

namespace epifuse::codegen::sm90 {
namespace {

constexpr const char* kResidual =
    "graph g(x: bf16[M, K], w: bf16[N, K], r: bf16[M, N]) {\n  h = matmul x, w^T\n"
    "  y = add h, r\n  return y\n}\n";
constexpr const char* kBias =
    "graph g(x: bf16[M, K], w: bf16[N, K], b: bf16[N]) {\n  h = matmul x, w^T\n  y = add h, b\n"
    "  return y\n}\n";
constexpr const char* kSilu =
    "graph g(x: bf16[M, K], w: bf16[N, K]) {\n  h = matmul x, w^T\n  y = silu h\n  return y\n}\n";
constexpr const char* kRelu =
    "graph g(x: bf16[M, K], w: bf16[N, K], b: bf16[N]) {\n  h = matmul x, w^T\n  c = add h, b\n"
    "  y = relu c\n  return y\n}\n";
constexpr const char* kReluOfColumns =
    "graph g(x: bf16[K, M], w: bf16[N, K], b: bf16[N]) {\n  t = transpose x [1, 0]\n"
    "  h = matmul t, w^T\n  c = add h, b\n  y = relu c\n  return y\n}\n";
constexpr const char* kSoftplusAlongN =
    "graph g(x: f16[M, K], w: f16[K, N], b: f16[N]) {\n  h = matmul x, w\n  c = add h, b\n"
    "  y = softplus c\n  return y\n}\n";

class Product {
 public:
  explicit Product(const char* text, const Variant& variant = {},
                   const char* device = "NVIDIA H200")
      : plan_(plan::make_plan(ir::parse(text), {})),
        device_(*targets::find_device(device)),
        profile_{device_.measured->limits, {}, &device_} {
    const targets::TargetInfo& target = *targets::find_target("sm_90a");
    configs_ = codegen::fitted(family(), step(), family().configs(step(), target),
                               make_variant(variant), target);
  }

  // Of the first config whose name begins so; 0 without one.
  double us(const std::string& name, const GemmSizes& sizes) const {
    for (const GemmConfig& config : configs_) {
      if (print(config).starts_with(name)) return us(config, sizes);
    }
    return 0;
  }
  std::string chosen(const GemmSizes& sizes, bool may_swap = true) const {
    std::vector<GemmConfig> all = configs_;
    std::erase_if(all, [&](const GemmConfig& config) {
      return !may_swap && print(config).ends_with(", swapped");
    });
    return print(all[choose(family(), step(), all, sizes, profile_)]);
  }

 private:
  static const KernelFamily& family() { return all_families().front(); }
  const plan::FusedGemm& step() const { return std::get<plan::FusedGemm>(plan_.steps.front()); }
  double us(const GemmConfig& config, const GemmSizes& sizes) const {
    return family().expected_us(step(), config, sizes, profile_);
  }

  plan::Plan plan_;
  const targets::KnownDevice& device_;
  targets::DeviceProfile profile_;
  std::vector<GemmConfig> configs_;
};

constexpr Variant kBothOff{.misaligned_a = true, .misaligned_b = true};
constexpr Variant kAOff{.misaligned_a = true};

// What a config took on a card.
struct Measured {
  const char* text;
  Variant variant;
  GemmSizes sizes;
  const char* config;
  double us;
};

void expect_near(const Measured& row, const Product& product) {
  EXPECT_NEAR(product.us(row.config, row.sizes), row.us, 0.2 * row.us)
      << row.config << " at " << row.sizes.m << "x" << row.sizes.n << "x" << row.sizes.k;
}

void expect_all_near(std::span<const Measured> rows, const char* device) {
  for (const Measured& row : rows) expect_near(row, Product(row.text, row.variant, device));
}

TEST(Sm90Model, ExpectsWhatWasMeasured) {
  const Measured kRows[] = {
      {kResidual, {}, {1, 16384, 4096, 14336}, "ping-pong 128x192/184, 4 stages", 2577},
      {kResidual, {}, {1, 128, 4096, 4096}, "cooperative 128x64, 8 stages, split-K 2", 19.5},
      {kResidual, {}, {1, 128, 4096, 4096}, "ping-pong 64x64, 13 stages", 20.7},
      {kSilu, {}, {1, 2048, 28672, 8192}, "ping-pong 128x192/184, 4 stages", 1189},
      {kRelu, {}, {1, 1, 120, 4928}, "few rows 8x16, 16 warps", 8.9},
      {kSoftplusAlongN, {}, {1, 111, 424, 128}, "few rows 8x32, 8 warps", 6.9},
      {kResidual, kBothOff, {1, 41, 1400, 675}, "few rows 16x16, 8 warps", 9.8},
      {kResidual, kBothOff, {1, 6406, 776, 8222}, "ping-pong 128x128", 490},
      {kResidual, kBothOff, {1, 6406, 776, 8222}, "ping-pong 64x64", 1105},
      {kReluOfColumns, kAOff, {1, 401, 106, 14848}, "ping-pong 64x64", 143},
  };
  expect_all_near(kRows, "NVIDIA H200");
}

constexpr Variant kBOffAndResults{
    .misaligned_b = true, .non_tma_stores = 3, .copied_stores = 3, .copied_at_once = 1};
constexpr const char* kHasPreAct =
    "graph g(x: bf16[M, K], w: bf16[K, N]) {\n  h = matmul x, w\n  y = silu h\n  return h, y\n}\n";

// Of an H100 (2026-11-26, `bench --sweep` of random products, seeds 612 and 614): threads that move
// rows go on with the next tile while this one is multiplied, so small tiles lose nothing where K
// is short; and all CTAs wait for the one line that has a step of a column of A.
TEST(Sm90Model, ExpectsWhatThreadsThatMoveRowsTookOnAnH100) {
  const Measured kRows[] = {
      {kResidual, kBothOff, {1, 3936, 5440, 70}, "ping-pong 128x128", 51.3},
      {kResidual, kBothOff, {1, 3936, 5440, 70}, "ping-pong 64x128", 60.3},
      {kResidual, kBothOff, {1, 3936, 5440, 70}, "ping-pong 64x64", 77.6},
      {kReluOfColumns, kBothOff, {1, 1, 6008, 2693}, "ping-pong 64x128", 64.0},
      {kReluOfColumns, kBothOff, {1, 1, 6008, 2693}, "ping-pong 64x64", 85.1},
      {kReluOfColumns, kAOff, {1, 11, 15232, 4160}, "ping-pong 64x128", 71.7},
  };
  expect_all_near(kRows, "NVIDIA H100 80GB HBM3");
  // 12.8 us, where cooperative 128x128 took 17.0.
  const Product small(kHasPreAct, kBOffAndResults, "NVIDIA H100 80GB HBM3");
  EXPECT_EQ(small.chosen({1, 596, 4057, 64}), "ping-pong 64x64, 11 stages");
}

// Less than 2^21: the kernel's division of their numbers is exact up to there.
TEST(Sm90Model, LeavesOutMoreTilesThanTheKernelNumbers) {
  const Product product(kSilu);
  const GemmSizes many{900'000, 64, 128, 64}, few{500'000, 64, 128, 64};  // 4 tiles each of 64x32
  EXPECT_GT(product.us("ping-pong 64x32", many), 100 * product.us("ping-pong 64x64", many));
  EXPECT_LT(product.us("ping-pong 64x32", few), 10 * product.us("ping-pong 64x64", few));
}

// Product and tail took 39.4, 19.3, 25.5 and 19.8 us there.
TEST(Sm90Model, ExpectsWhatFewRowsOffBoundariesTookOnAnH100) {
  const char* const kH100 = "NVIDIA H100 80GB HBM3";
  const Product silu(kSilu, kBothOff, kH100), residual(kResidual, kBothOff, kH100);
  const std::string few = "few rows 8x16, 8 warps", more_warps = "few rows 8x16, 16 warps";
  EXPECT_NEAR(silu.us(few, {1, 2, 10683, 1669}), 23.1, 0.2 * 23.1);
  EXPECT_NEAR(silu.us(few, {1, 3, 3776, 1430}), 12.0, 0.2 * 12.0);
  EXPECT_NEAR(silu.us("few rows 16x16, 8 warps", {1, 9, 2880, 1389}), 12.4, 0.2 * 12.4);
  EXPECT_NEAR(residual.us(more_warps, {1, 3, 256, 2612}), 9.3, 0.2 * 9.3);
  EXPECT_EQ(silu.chosen({1, 2, 10683, 1669}), few);
  // 6x120x4047 took 7.7 us by eight parts of K, 9.9 by 16 warps (2026-11-26, `bench --sweep`).
  EXPECT_EQ(residual.chosen({1, 6, 120, 4047}), few + ", split-K 8");
}

// Of the untuned rows of `small` in bench/results: what is read displaces what others left in L2.
TEST(Sm90Model, ExpectsWhatFewRowsTookWhereMemoryIsWhatTakesTime) {
  struct Row {
    const char* device;
    GemmSizes sizes;
    double us;
  };
  const Row kRows[] = {
      {"NVIDIA H100 80GB HBM3", {1, 1, 4096, 4096}, 20.3},
      {"NVIDIA H100 80GB HBM3", {1, 8, 3584, 3584}, 17.8},
      {"NVIDIA H100 80GB HBM3", {1, 1, 4096, 14336}, 51.7},
      {"NVIDIA H200", {1, 1, 4096, 4096}, 16.4},
      {"NVIDIA H200", {1, 8, 2048, 4096}, 13.6},
      {"NVIDIA H200", {1, 1, 4096, 14336}, 38.5},
  };
  for (const Row& row : kRows) {
    EXPECT_NEAR(Product(kResidual, {}, row.device).us("few rows 8x16, 8 warps", row.sizes), row.us,
                0.07 * row.us)
        << row.device << ", " << row.sizes.m << "x" << row.sizes.n << "x" << row.sizes.k;
  }
}

// 33 clusters of 4 CTAs are two waves where 30 run at once: 8x64 with K split by 4 took 23.1 us,
// split by 2 18.9. Elements of A are moved to where misaligned vectors of B begin (H100,
// 2026-11-26).
TEST(Sm90Model, ExpectsWhatSharesAndElementsOfFewRowsTookOnAnH100) {
  const char* const kH100 = "NVIDIA H100 80GB HBM3";
  const Product along_n(kSoftplusAlongN, kAOff, kH100);
  const GemmSizes shared{1, 263, 64, 5315};
  EXPECT_NEAR(along_n.us("few rows 8x64, 8 warps, split-K 4", shared), 23.1, 0.2 * 23.1);
  EXPECT_NEAR(along_n.us("few rows 8x64, 8 warps, split-K 2", shared), 18.9, 0.2 * 18.9);
  EXPECT_FALSE(along_n.chosen(shared).starts_with("few rows 8x64, 8 warps, split-K 4"));
  const Product columns(kReluOfColumns, kBothOff, kH100);
  EXPECT_NEAR(columns.us("few rows 16x16, 8 warps", {1, 3, 64, 5174}), 31.1, 0.2 * 31.1);
}

// Of an H100 (2026-11-26, `bench --sweep`, seed 614): 64x256 16.1 us, 64x96 18.3, whose chunks of
// 32 columns wait for a residual as those of 64 do; and 8x32 7.7 us, 8x64 8.9.
TEST(Sm90Model, TakesWholeChunksOfResidualsAndSmallTilesOfFewRowsAlongN) {
  const char* const kH100 = "NVIDIA H100 80GB HBM3";
  const std::string chosen = Product(kResidual, {}, kH100).chosen({1, 662, 9216, 192});
  EXPECT_TRUE(chosen.starts_with("ping-pong 64x128") || chosen.starts_with("cooperative 128x128"))
      << chosen;
  EXPECT_EQ(Product(kSoftplusAlongN, {}, kH100).chosen({1, 1, 8856, 192}),
            "few rows 8x32, 8 warps");
}

// Of an H100 (2026-11-26, `bench --sweep`, seed 614): rows of results are 48 bytes off lines of
// 128, and 64x256 takes 55.3 us, 64x128 59.5, 128x128 61.4, 128x112 63.8.
TEST(Sm90Model, TakesWideTilesWhereTheyCutLinesOfResults) {
  const Product product(kRelu, {}, "NVIDIA H100 80GB HBM3");
  const GemmSizes sizes{2, 12784, 1752, 64};
  const auto us = [&](const char* config) { return product.us(config, sizes); };
  EXPECT_LT(us("ping-pong 64x256"), us("ping-pong 64x128"));
  EXPECT_LT(us("ping-pong 128x192"), us("ping-pong 128x128"));
  EXPECT_LT(us("ping-pong 128x128"), us("ping-pong 128x112"));
  EXPECT_EQ(product.chosen(sizes), "ping-pong 64x256, 4 stages");
}

// Of an H200 (2026-11-26, `bench --sweep`, seed 21): the second tile of 224 columns has 32 of the
// 256 there are. 64x224 takes 55.4 us, 64x192 41.3, 64x256 23.7, 64x128 21.1.
TEST(Sm90Model, CountsColumnsThatAreNotThere) {
  const Product product(kResidual);
  const GemmSizes sizes{1, 12583, 256, 1024};
  EXPECT_GT(product.us("ping-pong 64x224", sizes), 1.3 * product.us("ping-pong 64x256", sizes));
  EXPECT_GT(product.us("ping-pong 64x192", sizes), 1.15 * product.us("ping-pong 64x128", sizes));
}

// Of an H100 (2026-11-26, `bench --sweep`, seed 614): tiles behind narrower ones begin within lines
// of B along N. 114.3 us, 88.8 by tiles of one width; along K narrow ones lose nothing.
TEST(Sm90Model, TakesOneWidthOfTilesAlongN) {
  const char* const kH100 = "NVIDIA H100 80GB HBM3";
  const Product along_n(kSoftplusAlongN, {}, kH100), along_k(kRelu, {}, kH100);
  const GemmSizes sizes{1, 480, 9920, 4992};
  const auto of_one_width = [&](const Product& product) {
    return product.us("ping-pong 128x192/184", sizes) / product.us("ping-pong 128x192, 4", sizes);
  };
  EXPECT_GT(of_one_width(along_n), 1.03 * of_one_width(along_k));
  EXPECT_EQ(along_n.chosen(sizes, false), "ping-pong 128x192, 4 stages");
}

// Of an H100 (2026-11-26, `bench --sweep`, seed 623): eight rows of tiles read B again. 38.4 us by
// one-consumer 64x96 in two parts, 30.9 by cooperative 128x128 in four.
TEST(Sm90Model, LeavesSeveralRowsOfTilesToThoseThatShareB) {
  const Product product(kRelu, {}, "NVIDIA H100 80GB HBM3");
  EXPECT_EQ(product.chosen({1, 469, 598, 13056}), "cooperative 128x128, 6 stages, split-K 4");
}

// Of an H100 (2026-11-26, `bench --sweep`, seed 623): eight parts of 64x64 take 12.2 us, whose sums
// one CTA adds up, of 64x32 10.8; 64x64 in four 11.6.
TEST(Sm90Model, CountsTheColumnsOfPartsThatACtaAddsUp) {
  const Product product(kRelu, {}, "NVIDIA H100 80GB HBM3");
  const GemmSizes sizes{1, 106, 128, 7536};
  const std::string wide = "one-consumer 64x64, 13 stages, split-K 8";
  EXPECT_GT(product.us(wide, sizes), product.us("one-consumer 64x32, 16 stages, split-K 8", sizes));
  EXPECT_TRUE(product.chosen(sizes).starts_with("one-consumer 64x32")) << product.chosen(sizes);
}

// Cooperative tiles in clusters took 3122 and 1400 us there, 1.21 and 1.18 of these.
TEST(Sm90Model, LeavesLargeProductsThatL2DoesNotHoldToPingPong) {
  const std::string kFast = "ping-pong";
  EXPECT_TRUE(Product(kResidual).chosen({1, 16384, 4096, 14336}).starts_with(kFast));
  EXPECT_TRUE(Product(kSilu).chosen({1, 2048, 28672, 8192}).starts_with(kFast));
  // One wave is in step: 156 us, where ping-pong 128x128 takes 164.
  EXPECT_TRUE(Product(kResidual).chosen({1, 1024, 4096, 14336}).starts_with("cooperative"));
}

// Ping-pong 64x64 took 1.37 and 2.5 times as long.
TEST(Sm90Model, TakesKernelsForFewRowsWhereColumnsAreFew) {
  EXPECT_TRUE(Product(kSoftplusAlongN).chosen({1, 111, 424, 128}).starts_with("few rows"));
  EXPECT_TRUE(Product(kReluOfColumns, kAOff).chosen({1, 401, 106, 14848}).starts_with("few rows"));
  EXPECT_FALSE(Product(kRelu).chosen({1, 512, 4096, 4096}).starts_with("few rows"));
}

// What an H100 took (2026-11-26, `epifuse bench --sweep`): few tiles with a long K, and rows off
// 16-byte boundaries.
TEST(Sm90Model, ExpectsWhatLongKOfFewTilesTookOnAnH100) {
  const Measured kRows[] = {
      {kBias, {}, {1, 200, 896, 10240}, "cooperative 128x64, 8 stages, split-K 4", 24.9},
      {kBias, {}, {1, 200, 896, 10240}, "ping-pong 64x48", 26.6},
      {kBias, {}, {1, 384, 384, 8192}, "one-consumer 64x128, 8 stages, split-K 4", 17.7},
      {kBias, {}, {1, 96, 256, 16128}, "one-consumer 64x64, 13 stages, split-K 8", 16.1},
      {kBias, {}, {1, 40, 1024, 6144}, "one-consumer 64x64, 13 stages, split-K 4", 14.1},
      {kBias, {}, {1, 144, 5888, 9984}, "ping-pong 192x48", 56.8},
      {kBias, {}, {1, 12, 192, 11520}, "few rows 8x16, 8 warps, split-K 8", 11.0},
      {kBias, kBothOff, {1, 300, 256, 2050}, "few rows 16x16, 8 warps", 19.6},
      {kBias, kBothOff, {1, 100, 1024, 1030}, "few rows 16x16, 8 warps", 15.8},
  };
  expect_all_near(kRows, "NVIDIA H100 80GB HBM3");
}

// 6304 rows are 33 of 192 and 768 columns 4: one wave of an H100's 132 SMs, which took 51.7 us by
// the best config of two consumers. In large products they are behind.
TEST(Sm90Model, ExpectsWhatThreeConsumersTookOnAnH100) {
  const Measured kRows[] = {
      {kResidual, {}, {1, 6304, 768, 3072}, "cooperative 192x192, 4 stages", 50.7},
      {kResidual, {}, {1, 6304, 1024, 1024}, "cooperative 192x128, 4 stages", 31.3},
      {kResidual, {}, {1, 4096, 4096, 4096}, "cooperative 192x192, 4 stages, cluster 2x1", 224},
      {kResidual, {}, {1, 16384, 4096, 14336}, "cooperative 192x160, 4 stages, cluster 2x1", 2896},
      {kSilu, {}, {1, 2048, 28672, 8192}, "cooperative 192x192", 1535},
  };
  expect_all_near(kRows, "NVIDIA H100 80GB HBM3");
  const Product residual(kResidual, {}, "NVIDIA H100 80GB HBM3");
  EXPECT_TRUE(residual.chosen({1, 6304, 768, 3072}).starts_with("cooperative 192x192"));
  EXPECT_FALSE(residual.chosen({1, 4096, 4096, 4096}).starts_with("cooperative 192"));
}

// 35x526x176 by ping-pong 64x32, an H100: 9.6 us, where aligned rows would take 7.
TEST(Sm90Model, CountsWhatThreadsLoadAndStoreThemselves) {
  const GemmSizes sizes{1, 35, 526, 176};
  const Variant copied{.non_tma_loads = 1,
                       .row_loads = 1,
                       .paired_loads = 1,
                       .non_tma_stores = 1,
                       .copied_stores = 1,
                       .copied_at_once = 2};
  const double staged = Product(kResidual).us("ping-pong 64x32", sizes),
               by_hand = Product(kResidual, copied).us("ping-pong 64x32", sizes);
  EXPECT_GT(by_hand, staged + 0.5);
  EXPECT_LT(by_hand, staged + 3);
  Variant single = copied;
  single.paired_loads = 0;
  single.copied_at_once = 1;
  EXPECT_GT(Product(kResidual, single).us("ping-pong 64x32", sizes), by_hand);
}

}  // namespace
}  // namespace epifuse::codegen::sm90
