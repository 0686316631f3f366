// When rows that are looked up are copied in order before a product.
#include <gtest/gtest.h>

#include "backends/cuda/choose/step_choice.h"
#include "backends/cuda/run/run_builder.h"
#include "backends/pointer_arrays.h"
#include "ir/text.h"
#include "tests/unit/jit/environment.h"
#include "tune/unfused.h"

namespace epifuse::cuda {
namespace {

// Of the real family: what is known of the product of copied rows.
TEST(RowsInOrder, AreCopiedBeforeLargeProductsOrWhereForced) {
  const ir::Graph graph = ir::parse(
      "graph g(x: bf16[S, 64], i: i32[T], w: bf16[G, N, 64], e: i32[G]) {\n"
      "  r = take_rows x, i\n  h = grouped_matmul r, w^T, e\n  y = relu h\n  return y\n}\n");
  const targets::TargetInfo& target = *targets::find_target("sm_90a");
  const jit::TemporaryFolder folder;
  const auto jit = std::make_shared<jit::Jit>(jit::KernelCache(folder.path()));
  const Prepared prepared = prepare_steps(plan::make_plan(graph, {}), target, *jit);
  LateKernels late(target, jit);
  const auto run_of = [&](const Sizes& sizes, const ChoiceRules& rules) {
    return plan_of_run(prepared, late, rules,
                       backends::bind_stand_ins(prepared.plan, sizes, DeviceKind::cuda));
  };
  const Sizes few{{"S", 64}, {"T", 64}, {"N", 64}, {"G", 4}};
  const Sizes large{{"S", 64}, {"T", 65536}, {"N", 8192}, {"G", 4}};
  constexpr std::string_view kCopies = ", behind a copy of the rows of r";
  const targets::DeviceProfile device = targets::reference_profile(target);
  EXPECT_EQ(run_of(few, {device}).how.front().find(kCopies), std::string::npos);
  const backends::RunPlan run = run_of(large, {device});
  EXPECT_TRUE(run.how.front().ends_with(kCopies)) << run.how.front();
  const ForcedChoice first{0, std::string(tune::kRowsFirst)};
  const backends::RunPlan forced = run_of(few, {.device = device, .forced = &first});
  EXPECT_TRUE(forced.how.front().ends_with(kCopies)) << forced.how.front();
  EXPECT_EQ(std::get<plan::FusedGemm>(forced.plan.steps.front()).gemm.a.lookup, -1);
}

}  // namespace
}  // namespace epifuse::cuda
