// What a kernel takes of the workspace beside temporaries.
#include <gtest/gtest.h>

#include "backends/cuda/choose/step_choice.h"
#include "backends/cuda/run/run_builder.h"
#include "backends/pointer_arrays.h"
#include "ir/text.h"
#include "tests/unit/jit/environment.h"

namespace epifuse::cuda {
namespace {

// Of a real family: 128 x 256 results of a long K are few tiles.
TEST(Scratch, IsPartOfTheWorkspaceWhereTheChosenKernelTakesAny) {
  const ir::Graph graph = ir::parse(
      "graph g(x: bf16[M, K], w: bf16[256, K]) {\n  h = matmul x, w^T\n  y = relu h\n  return "
      "y\n}\n");
  const targets::TargetInfo& target = *targets::find_target("sm_80");
  const jit::TemporaryFolder folder;
  const auto jit = std::make_shared<jit::Jit>(jit::KernelCache(folder.path()));
  const Prepared prepared = prepare_steps(plan::make_plan(graph, {}), target, *jit);
  LateKernels late(target, jit);
  const ChoiceRules rules{targets::reference_profile(target)};
  const auto bytes = [&](const Sizes& sizes) {
    return workspace_bytes(prepared, late, rules,
                           backends::bind_stand_ins(prepared.plan, sizes, DeviceKind::cuda));
  };
  EXPECT_EQ(bytes({{"M", 16384}, {"K", 64}}), 0u);
  const Sizes long_sums{{"M", 128}, {"K", 16384}};
  const StepChoice choice =
      choose_step(prepared, 0, late,
                  backends::bind_stand_ins(prepared.plan, long_sums, DeviceKind::cuda), rules);
  ASSERT_NE(choice.kernel, nullptr);
  const auto& step = std::get<plan::FusedGemm>(prepared.plan.steps.front());
  const codegen::Scratch scratch = choice.kernels->family->scratch(
      step, choice.kernel->config, choice.kernels->variant, long_sums, rules.device.limits);
  EXPECT_GE(scratch.bytes, scratch.zeros + 2 * 128 * 256 * sizeof(float));
  EXPECT_GE(bytes(long_sums), scratch.bytes);
}

}  // namespace
}  // namespace epifuse::cuda
