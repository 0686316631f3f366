// Plans of random graphs compute what the graphs mean, to the bit, and keep every invariant.
#include <gtest/gtest.h>

#include <algorithm>

#include "interpret.h"
#include "ir/text.h"
#include "plan/facts.h"
#include "plan_checks.h"
#include "random_graph.h"

namespace epifuse::test {
namespace {

constexpr unsigned kNumGraphs = 150;

// Outputs of the plan against those of the graph it was made from.
void check_results(const ir::Graph& graph, const plan::Plan& plan, unsigned seed) {
  const Sizes sizes = random_graph_sizes();
  const Tensors expected = evaluate(graph, random_inputs(graph, sizes, seed), sizes);
  const Tensors got = run(plan, random_inputs(plan.graph, sizes, seed), sizes);
  ASSERT_EQ(graph.outputs.size(), plan.graph.outputs.size());
  for (std::size_t i = 0; i < graph.outputs.size(); ++i) {
    const Tensor& want = expected[plan::index(graph.outputs[i].value)];
    const Tensor& have = got[plan::index(plan.graph.outputs[i].value)];
    EXPECT_TRUE(same_bits(want, have)) << graph.outputs[i].name;
  }
}

void check_seed(unsigned seed, Numerics numerics, bool fuse) {
  // With `exact` every rounding happens in both; with `fast` nothing may need one.
  const ir::Graph graph = random_graph({seed, 24, numerics == Numerics::exact});
  SCOPED_TRACE(ir::print(graph));
  const plan::Plan plan = plan::make_plan(graph, {numerics, fuse});
  SCOPED_TRACE(plan::print(plan));
  check_invariants(plan);
  check_left_out(plan);
  check_results(graph, plan, seed);
  const plan::Plan split = split_all(plan);
  check_invariants(split);
  check_results(graph, split, seed);
}

// Steps of two products each; random graphs should have some.
int num_gated(unsigned seed, Numerics numerics) {
  const plan::Plan plan =
      plan::make_plan(random_graph({seed, 24, numerics == Numerics::exact}), {numerics});
  return static_cast<int>(
      std::count_if(plan.steps.begin(), plan.steps.end(), [](const plan::Step& step) {
        const auto* gemm = std::get_if<plan::FusedGemm>(&step);
        return gemm != nullptr && gemm->gemm.gating != plan::Gating::none;
      }));
}

void check_all(Numerics numerics, bool fuse) {
  for (unsigned seed = 0; seed < kNumGraphs; ++seed) {
    ASSERT_NO_THROW(check_seed(seed, numerics, fuse)) << seed;
    ASSERT_FALSE(::testing::Test::HasFailure()) << "seed " << seed;
  }
}

TEST(RandomPlans, FastComputesTheGraph) { check_all(Numerics::fast, true); }
TEST(RandomPlans, ExactComputesTheGraph) { check_all(Numerics::exact, true); }
TEST(RandomPlans, UnfusedComputesTheGraph) { check_all(Numerics::exact, false); }

TEST(RandomPlans, SomeAreGated) {
  int count = 0;
  for (unsigned seed = 0; seed < kNumGraphs; ++seed) count += num_gated(seed, Numerics::fast);
  EXPECT_GT(count, 10);
}

// The interpreters are worth nothing if they cannot tell: a plan with one changed constant.
TEST(RandomPlans, AChangedPlanIsNoticed) {
  ir::Graph graph = random_graph({3, 24, false});
  plan::Plan plan = plan::make_plan(graph, {});
  const Sizes sizes = random_graph_sizes();
  const Tensors inputs = random_inputs(plan.graph, sizes, 1);
  const Tensors before = run(plan, inputs, sizes);
  for (plan::Step& step : plan.steps) {
    std::visit([](auto& s) { s.epilogue.computes.push_back({ir::Op::constant, {}, 5}); }, step);
    std::visit([](auto& s) { s.epilogue.stores[0].source = s.epilogue.num_slots() - 1; }, step);
  }
  const Tensors after = run(plan, inputs, sizes);
  const ir::ValueId output = plan.graph.outputs[0].value;
  EXPECT_FALSE(same_bits(before[plan::index(output)], after[plan::index(output)]));
}

}  // namespace
}  // namespace epifuse::test
