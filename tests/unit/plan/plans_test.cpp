// Plans are made once, whoever asks.
#include "plan/plans.h"

#include <gtest/gtest.h>

#include <string>
#include <thread>
#include <vector>

#include "epifuse/error.h"
#include "ir/text.h"

namespace epifuse::plan {
namespace {

constexpr targets::StepLimits kLimits = targets::kBlockLimits;

ir::Graph layer(const std::string& name = "g") {
  return ir::parse("graph " + name +
                   "(x: bf16[M, K], w: bf16[K, N], b: bf16[N]) {\n  h = matmul x, w\n"
                   "  t = add h, b\n  y = max t, 0\n  return y\n}\n");
}

TEST(Plans, AreThoseOfTheGraphAfterThePasses) {
  Plans plans;
  const auto plan = plans.of(layer(), {}, kLimits);
  EXPECT_EQ(*plan, plan_of(layer(), {}, kLimits));
  ASSERT_EQ(plan->steps.size(), 1U);
  EXPECT_EQ(plan->epilogue(0).computes.back().op, ir::Op::relu);
}

TEST(Plans, KeepToTheLimitsOfTheTarget) {
  const ir::Graph graph = ir::parse(
      "graph g(x: bf16[M, K], w: bf16[N, K], b: bf16[N], c: bf16[N]) {\n  h = matmul x, w^T\n"
      "  t = add h, b\n  y = mul t, c\n  return y\n}\n");
  targets::StepLimits one_row = kLimits;
  one_row.gemm.rows = 1;
  EXPECT_EQ(plan_of(graph, {}, kLimits).steps.size(), 1U);
  Plan plan = plan_of(graph, {}, one_row);
  ASSERT_EQ(plan.left_out.size(), 1U);
  EXPECT_EQ(plan.left_out[0].why.code, "too_many_rows");
  EXPECT_NE(plan.left_out[0].why.sentence.find("more than 1 row"), std::string::npos);
  plan = plan_of(graph, {}, kLimits);
  plan.limits = one_row;
  EXPECT_THROW(verify(plan), InternalError);
}

TEST(Plans, AreMadeOnceForEachGraphAndItsOptions) {
  Plans plans;
  const auto first = plans.of(layer(), {}, kLimits);
  EXPECT_EQ(plans.of(layer(), {}, kLimits), first);
  EXPECT_EQ(plans.of(layer(), {.compile_late = false}, kLimits), first);  // is no matter of plans
  EXPECT_EQ(plans.num_made(), 1);
  EXPECT_NE(plans.of(layer("other"), {}, kLimits), first);
  EXPECT_EQ(plans.of(layer(), {Numerics::exact}, kLimits)->numerics, Numerics::exact);
  EXPECT_EQ(plans.of(layer(), {.fuse = false}, kLimits)->steps.size(), 3U);
  EXPECT_TRUE(plans.of(layer(), {.allow_tf32 = true}, kLimits)->allow_tf32);
  targets::StepLimits one_row = kLimits;
  one_row.gemm.rows = 1;
  EXPECT_EQ(plans.of(layer(), {}, one_row)->limits, one_row);
  EXPECT_EQ(plans.num_made(), 6);
}

// A process may run a graph on a GPU and on the CPU.
TEST(Plans, AreOthersForTargetsOfOtherLimits) {
  const ir::Graph graph = ir::parse(
      "graph g(x: bf16[T, K], w: bf16[G, K, N], ends: i32[G]) {\n"
      "  h = grouped_matmul x, w, ends\n  s = row_sum h\n  return s\n}\n");
  Plans plans;
  EXPECT_EQ(plans.of(graph, {}, targets::kBlockLimits)->steps.size(), 1U);
  EXPECT_EQ(plans.of(graph, {}, targets::kHostLimits)->steps.size(), 2U);
}

TEST(Plans, AreMadeOnceAmongThreads) {
  Plans plans;
  std::vector<std::thread> threads;
  for (int i = 0; i < 8; ++i) threads.emplace_back([&] { plans.of(layer(), {}, kLimits); });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(plans.num_made(), 1);
}

TEST(Plans, TheOldestGoesFirst) {
  Plans plans;
  for (std::size_t i = 0; i <= Plans::kMost; ++i)
    plans.of(layer("g" + std::to_string(i)), {}, kLimits);
  const std::int64_t made = plans.num_made();
  plans.of(layer("g1"), {}, kLimits);
  EXPECT_EQ(plans.num_made(), made);
  plans.of(layer("g0"), {}, kLimits);
  EXPECT_EQ(plans.num_made(), made + 1);
}

}  // namespace
}  // namespace epifuse::plan
