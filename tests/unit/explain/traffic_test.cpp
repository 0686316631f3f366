// Bytes and flops of steps, against sums done by hand.
#include "explain/traffic.h"

#include <gtest/gtest.h>

#include <string>

#include "ir/text.h"

namespace epifuse {
namespace {

constexpr double kM = 100, kN = 48, kK = 32;
const Sizes kSizes = {{"M", 100}, {"N", 48}, {"K", 32}};

plan::Plan plan_of(const std::string& text, bool fuse = true) {
  return plan::make_plan(ir::parse(text), {Numerics::fast, fuse});
}

constexpr const char* kLayer =
    "graph g(x: bf16[M, K], w: bf16[N, K], b: bf16[N], c: f32[M, 1], r: bf16[M, N], a: scalar) {\n"
    "  h = matmul x, w^T\n  t = add h, b\n  s = mul t, a\n  f = cast s -> f32\n"
    "  u = mul f, c\n  v = cast u -> bf16\n  y = add v, r\n  return y\n}\n";

double fused_bytes() { return 2 * (kM * kK + kN * kK + kN + kM * kN) + 4 * kM + 2 * kM * kN; }

TEST(Traffic, OfAFusedStep) {
  const plan::Plan plan = plan_of(kLayer);
  ASSERT_EQ(plan.steps.size(), 1u);
  const StepCost step = cost(plan, plan.steps[0], kSizes);
  EXPECT_DOUBLE_EQ(step.bytes(), fused_bytes());
  EXPECT_DOUBLE_EQ(step.flops, 2 * kM * kN * kK);
  EXPECT_EQ(step.reads.size(), 6u);
  EXPECT_EQ(step.writes.size(), 1u);
}

TEST(Traffic, OfTheSameOpsAlone) {
  const plan::Plan plan = plan_of(kLayer);
  const std::vector<std::vector<StepCost>> unfused = unfused_costs(plan, kSizes);
  ASSERT_EQ(unfused.size(), 1u);
  ASSERT_EQ(unfused[0].size(), 7u);  // one per op
  double bytes = 0;
  for (const StepCost& op : unfused[0]) bytes += op.bytes();
  const double narrow = 2 * kM * kN, wide = 4 * kM * kN;
  const double matmul = 2 * (kM * kK + kN * kK) + narrow, add = 2 * narrow + 2 * kN;
  const double scale = 2 * narrow, widen = narrow + wide, mul = 2 * wide + 4 * kM;
  const double round = wide + narrow, residual = 3 * narrow;
  EXPECT_DOUBLE_EQ(bytes, matmul + add + scale + widen + mul + round + residual);
}

TEST(Traffic, AnUnfusedPlanSavesNothing) {
  const plan::Plan plan = plan_of(kLayer, false);
  const std::vector<std::vector<StepCost>> unfused = unfused_costs(plan, kSizes);
  ASSERT_EQ(unfused.size(), plan.steps.size());
  for (std::size_t i = 0; i < unfused.size(); ++i) {
    ASSERT_EQ(unfused[i].size(), 1u);
    EXPECT_DOUBLE_EQ(unfused[i][0].bytes(), cost(plan, plan.steps[i], kSizes).bytes());
  }
}

// What a broadcast view repeats is read once; an unbatched operand once for all batches.
TEST(Traffic, CountsDistinctElements) {
  const plan::Plan plan = plan_of(
      "graph g(x: bf16[B, M, K], w: bf16[K, N], b: bf16[N]) {\n  v = broadcast b [M, N]\n"
      "  h = matmul x, w\n  y = add h, v\n  return y\n}\n");
  const Sizes sizes = {{"B", 3}, {"M", 100}, {"N", 48}, {"K", 32}};
  const StepCost step = cost(plan, plan.steps.at(0), sizes);
  EXPECT_DOUBLE_EQ(step.bytes(), 2 * (3 * kM * kK + kK * kN + kN + 3 * kM * kN));
  EXPECT_DOUBLE_EQ(step.flops, 2 * 3 * kM * kN * kK);
}

// Work that two kernels repeat is one op of the unfused side.
TEST(Traffic, RepeatedWorkCountsOnceUnfused) {
  const plan::Plan plan = plan_of(
      "graph g(x: bf16[M, K], w: bf16[K, K], b: bf16[K], a: scalar) {\n  s = mul b, a\n"
      "  h = matmul x, w\n  t = add h, s\n  d = matmul t, w\n  y = add d, s\n  return y\n}\n");
  ASSERT_EQ(plan.steps.size(), 2u);
  const std::vector<std::vector<StepCost>> unfused = unfused_costs(plan, kSizes);
  EXPECT_EQ(unfused[0].size() + unfused[1].size(), 5u);
}

}  // namespace
}  // namespace epifuse
