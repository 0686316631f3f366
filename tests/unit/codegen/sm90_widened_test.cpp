// Products of 16 bits by weights of 8 in the Hopper family: which rows it takes, and its launch.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <string>

#include "codegen/family.h"
#include "codegen/sm90/dense.h"
#include "codegen/sm90/few_rows.h"
#include "ir/text.h"
#include "kernels/abi.h"
#include "tests/unit/codegen/dense_bound.h"
#include "tests/unit/targets/reference_device.h"

namespace epifuse::codegen {
namespace {

struct Case {
  plan::Plan plan;
  const targets::TargetInfo& target = *targets::find_target("sm_90a");

  explicit Case(const std::string& rows, const std::string& weights = "e4m3[N, K]",
                const std::string& operand = "w^T")
      : plan(plan::make_plan(
            ir::parse(fmt::format("graph g(x: bf16[{}, K], w: {}, s: f32[N]) {{\n  h = matmul x, "
                                  "{} -> f32\n  y = mul h, s\n  return y\n}}\n",
                                  rows, weights, operand)),
            {})) {}
  const plan::FusedGemm& step() const { return std::get<plan::FusedGemm>(plan.steps.front()); }
  const KernelFamily& family() const { return *families_for(target).front(); }
  std::string code() const {
    const auto no = family().why_not(plan, step(), target);
    return no ? no->code : "";
  }
};

TEST(Sm90Widened, LeavesSomeRowsToAnotherFamily) {
  for (const char* rows : {"1", "16", "33", "64", "5000", "M"}) EXPECT_EQ(Case(rows).code(), "");
  for (const char* rows : {"17", "32"}) {
    const Case some(rows);
    EXPECT_EQ(some.code(), "some_rows") << rows;
    const KernelFamily& other = *families_for(some.step(), some.target).back();
    EXPECT_FALSE(other.why_not(some.plan, some.step(), some.target)) << rows;
  }
}

TEST(Sm90Widened, ReadsBothOperandsAlongK) {
  EXPECT_EQ(Case("64", "i8[K, N]", "w").code(), "b_not_k_major");
}

TEST(Sm90Widened, HasKernelsForFewRowsWhereTheseMayBeFew) {
  const auto count = [](const char* rows) {
    const Case c(rows);
    return std::ranges::count_if(
        c.family().configs(c.step(), c.target),
        [](const GemmConfig& config) { return sm90::is_for_few_rows(config.as<sm90::Config>()); });
  };
  EXPECT_GT(count("16"), 0);
  EXPECT_GT(count("M"), 0);
  EXPECT_EQ(count("33"), 0);
}

TEST(Sm90Widened, TakesNoClustersButThoseThatSplitK) {
  const Case c("M");
  const std::vector<sm90::Config> configs = sm90::configs(c.step(), c.target);
  EXPECT_TRUE(std::ranges::any_of(configs, [](const auto& each) { return each.split_k > 1; }));
  for (const sm90::Config& config : configs) {
    EXPECT_TRUE(config.widens_b) << sm90::print(config);
    EXPECT_EQ(config.cluster_m * config.cluster_n, 1) << sm90::print(config);
    EXPECT_FALSE(config.swapped || config.two_widths) << sm90::print(config);
  }
}

// Of weights a step has 64 bytes a row, as they lie; of x 128, swizzled.
TEST(Sm90Widened, ItsBoxesHaveOneStepOfBoth) {
  const Case c("M");
  const Bound bound = dense_bound(c.plan, {{"M", 300}, {"N", 1000}, {"K", 208}});
  for (const sm90::Config& config : sm90::configs(c.step(), c.target)) {
    const Launch launch =
        sm90::launch(c.plan, c.step(), config, {}, bound, targets::reference_gpu().limits);
    const auto map = [&](std::size_t offset) {
      return *std::ranges::find(launch.maps, offset, &TensorMapRequest::offset);
    };
    const TensorMapRequest a = map(offsetof(abi::GemmParams, a)),
                           b = map(offsetof(abi::GemmParams, b));
    EXPECT_EQ(a.dtype, DType::bf16);
    EXPECT_EQ(b.dtype, DType::e4m3);
    EXPECT_EQ(a.box_cols, 64);
    EXPECT_EQ(b.box_cols, 64);
    EXPECT_EQ(b.box_rows, config.tile_n);
    EXPECT_TRUE(a.swizzled);
    EXPECT_FALSE(b.swizzled);
  }
}

}  // namespace
}  // namespace epifuse::codegen
