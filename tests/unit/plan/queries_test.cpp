// Questions about plans: temporaries, rounded values, and what a split leaves of them.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "ir/text.h"
#include "plan/plan.h"
#include "plan_checks.h"

namespace epifuse::plan {
namespace {

constexpr const char* kTwoLayers =
    "graph g(x: bf16[M, 64], w: bf16[64, 64], b: bf16[64]) {\n"
    "  h = matmul x, w^T\n  t = add h, b\n  u = silu t\n"
    "  d = matmul u, w^T\n  y = add d, x\n  return y\n}\n";

std::vector<std::string> names(const Plan& plan, const std::vector<ir::ValueId>& values) {
  std::vector<std::string> result;
  for (ir::ValueId value : values) result.push_back(plan.graph[value].name);
  return result;
}

std::vector<std::string> rounded_names(const Plan& plan) {
  const std::vector<bool> rounded = rounded_values(plan);
  std::vector<std::string> result;
  for (std::size_t i = 0; i < rounded.size(); ++i) {
    if (rounded[i]) result.push_back(plan.graph.nodes[i].name);
  }
  return result;
}

using Names = std::vector<std::string>;

TEST(Queries, OfABareProductARoundingToWhatIsStoredIsTheStore) {
  FusedGemm step;
  step.epilogue.num_accumulators = 1;
  step.epilogue.stores.push_back({"y", 0, DType::bf16, StoreKind::tile, 0});
  EXPECT_TRUE(is_bare(step));
  step.epilogue.computes.push_back({ir::Op::cast, {0, -1, -1}, 0, DType::bf16});
  EXPECT_FALSE(is_bare(step));  // the cast is not what is stored
  step.epilogue.stores.front().source = 1;
  EXPECT_TRUE(is_bare(step));
  step.epilogue.computes.back().dtype = DType::f16;
  EXPECT_FALSE(is_bare(step));
  step.epilogue.computes.back() = {ir::Op::relu, {0, -1, -1}};
  EXPECT_FALSE(is_bare(step));
  step.epilogue.computes.clear();
  step.epilogue.stores.front() = {"s", 0, DType::f32, StoreKind::row_sum, 0};
  EXPECT_FALSE(is_bare(step));
}

TEST(Queries, Temporaries) {
  const Plan plan = make_plan(ir::parse(kTwoLayers), {});
  EXPECT_EQ(names(plan, plan.temporaries()), Names({"u"}));
  EXPECT_EQ(names(plan, test::split_all(plan).temporaries()), Names({"h", "u", "d"}));
  const Plan unfused = make_plan(ir::parse(kTwoLayers), {Numerics::fast, false});
  EXPECT_EQ(names(unfused, unfused.temporaries()), Names({"h", "t", "u", "d"}));
}

TEST(Queries, RoundedValues) {
  const Plan fast = make_plan(ir::parse(kTwoLayers), {});
  EXPECT_EQ(rounded_names(fast), Names({"u"}));
  EXPECT_EQ(rounded_names(test::split_all(fast)), Names({"h", "u", "d"}));
  const Plan exact = make_plan(ir::parse(kTwoLayers), {Numerics::exact, true});
  EXPECT_EQ(rounded_names(exact).size(), exact.graph.nodes.size());
}

TEST(Queries, ComputedValues) {
  const Plan plan = make_plan(ir::parse(kTwoLayers), {});
  EXPECT_EQ(names(plan, computed_values(plan, plan.steps[0])), Names({"h", "t", "u"}));
  EXPECT_EQ(names(plan, computed_values(plan, plan.steps[1])), Names({"d", "y"}));
  const Plan split = test::split_all(plan);
  EXPECT_EQ(names(split, computed_values(split, split.steps[0])), Names({"h"}));
  EXPECT_EQ(names(split, computed_values(split, split.steps[1])), Names({"t", "u"}));
}

TEST(Queries, SplitStoresTheProduct) {
  const Plan plan = make_plan(ir::parse(kTwoLayers), {});
  const Split parts = split(plan, std::get<FusedGemm>(plan.steps[0]));
  ASSERT_EQ(parts.gemms.size(), 1u);
  ASSERT_EQ(parts.gemms[0].epilogue.stores.size(), 1u);
  EXPECT_EQ(parts.gemms[0].epilogue.stores[0].name, "h");
  ASSERT_TRUE(parts.tail);
  EXPECT_EQ(parts.tail->epilogue.loads.front().name, "h");
  const Plan bare = make_plan(
      ir::parse("graph g(x: bf16[M, 64], w: bf16[64, 64]) {\n  y = matmul x, w\n  return y\n}\n"),
      {});
  const Split whole = split(bare, std::get<FusedGemm>(bare.steps[0]));
  ASSERT_EQ(whole.gemms.size(), 1u);
  EXPECT_FALSE(whole.tail);
}

}  // namespace
}  // namespace epifuse::plan
