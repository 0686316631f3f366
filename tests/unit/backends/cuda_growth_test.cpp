// Time and memory of long graphs grow with their number of steps, not with its square.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <ctime>

#include "backends/cuda/choose/time_memo.h"
#include "backends/cuda/run/run_builder.h"
#include "ir/text.h"
#include "tests/unit/jit/environment.h"
#include "tune/shortlist.h"

namespace epifuse::cuda {
namespace {

const targets::TargetInfo& sm90() { return *targets::find_target("sm_90a"); }

// h1 = x w, a1 = op h1, h2 = a1 w, ..
plan::Plan chain(int num_products, std::string_view op) {
  std::string text = "graph chain(x: bf16[M, 4096], w: bf16[4096, 4096]) {\n";
  std::string last = "x";
  for (int i = 0; i < num_products; ++i) {
    text += fmt::format("  h{} = matmul {}, w^T\n", i, last);
    last = fmt::format("h{}", i);
    if (op.empty()) continue;
    text += fmt::format("  a{} = {} h{}\n", i, op, i);
    last = fmt::format("a{}", i);
  }
  return plan::make_plan(ir::parse(text + fmt::format("  return {}\n}}\n", last)), {});
}

const plan::FusedGemm& first_step(const plan::Plan& plan) {
  return std::get<plan::FusedGemm>(plan.steps.front());
}

class Growth : public ::testing::Test {
 protected:
  struct Run {
    double seconds = 0;
    std::size_t num_steps = 0, num_weighed = 0;
  };

  // Of this process, as other processes take turns with it.
  static double seconds() { return static_cast<double>(std::clock()) / CLOCKS_PER_SEC; }

  // What a run on M rows is made of: all that explain and the first launch do beside compiling.
  Run plan_run(int num_products, std::string_view op, std::int64_t rows) {
    const Prepared prepared = prepare_steps(chain(num_products, op), sm90(), *jit_);
    codegen::Bound bound;
    bound.sizes["M"] = rows;
    bound.tensors.resize(prepared.plan.graph.nodes.size());
    bound.scalars.resize(bound.tensors.size());
    const auto bind = [&](ir::ValueId id) {
      bound.tensors[static_cast<std::size_t>(id)] = {&bound,
                                                     {0, {id == 1 ? 4096 : rows, 4096}, {4096, 1}}};
    };
    bind(0);
    bind(1);
    bind(prepared.plan.graph.outputs.front().value);
    LateKernels late(sm90(), jit_);
    const double start = seconds();
    const backends::RunPlan run =
        plan_of_run(prepared, late, {targets::reference_profile(sm90())}, bound);
    return {seconds() - start, run.plan.steps.size(), late.times().num_weighed()};
  }

  void expect_linear(std::string_view op, std::int64_t rows) {
    constexpr int kFew = 250, kMany = 16 * kFew;
    plan_run(1, op, rows);  // compiles
    const Run few = plan_run(kFew, op, rows), many = plan_run(kMany, op, rows);
    EXPECT_EQ(few.num_steps, static_cast<std::size_t>(kFew));
    EXPECT_EQ(many.num_steps, static_cast<std::size_t>(kMany));
    EXPECT_EQ(many.num_weighed, few.num_weighed) << "of steps that are all alike";
    EXPECT_LT(many.seconds, 16 * 5 * few.seconds + 0.05);
  }

  jit::TemporaryFolder folder_;
  std::shared_ptr<jit::Jit> jit_ = std::make_shared<jit::Jit>(jit::KernelCache(folder_.path()));
};

TEST_F(Growth, ChainsOfFusedProducts) { expect_linear("relu", 512); }

// Each product is left to the vendor when the tensors are known.
TEST_F(Growth, ChainsOfSplitProducts) { expect_linear("", 512); }

TEST(StepClasses, LookPastNamesAndPlaces) {
  const plan::Plan plan = chain(3, "relu");
  StepClasses classes;
  const std::size_t first = classes.of(first_step(plan));
  for (const plan::Step& step : plan.steps) {
    EXPECT_EQ(classes.of(std::get<plan::FusedGemm>(step)), first);
  }
}

TEST(StepClasses, TellStepsThatModelsTellApart) {
  StepClasses classes;
  std::set<std::size_t> numbers;
  const auto add = [&](std::string_view shape_of_w, std::string_view body) {
    const plan::Plan plan = plan::make_plan(
        ir::parse(fmt::format("graph g(x: bf16[M, 64], w: bf16[{}], b: bf16[64], r: bf16[M, 64]) "
                              "{{\n  h = matmul x, w\n{}  return y\n}}\n",
                              shape_of_w, body)),
        {});
    numbers.insert(classes.of(first_step(plan)));
  };
  add("64, 64", "  y = relu h\n");
  add("64, 64", "  y = silu h\n");
  add("64, 128", "  y = relu h\n");
  add("64, 64", "  y = add h, b\n");
  add("64, 64", "  y = add h, r\n");
  add("64, 64", "  y = mul h, 2\n");
  add("64, 64", "  y = mul h, 3\n");
  add("64, 64", "  y = row_sum h\n");
  EXPECT_EQ(numbers.size(), 8u);
}

TEST(TimeMemo, AnswersAsTheModelDoes) {
  const plan::Plan plan = chain(2, "relu");
  const codegen::KernelFamily& family = codegen::all_families().front();
  const plan::FusedGemm& step = first_step(plan);
  const plan::FusedGemm& alike = std::get<plan::FusedGemm>(plan.steps.back());
  const std::vector<codegen::GemmConfig> configs = family.configs(step, sm90());
  const std::vector<codegen::GemmSizes> typical = tune::typical_sizes(step.gemm);
  const targets::DeviceProfile device = targets::reference_profile(sm90());
  TimeMemo memo;
  for (const codegen::GemmSizes& sizes : typical) {
    const std::size_t index = codegen::choose(family, step, configs, sizes, device);
    for (const plan::FusedGemm* each : {&step, &alike}) {
      const TimeMemo::Best best = memo.best(family, *each, configs, sizes, device);
      EXPECT_EQ(best.index, index);
      EXPECT_EQ(best.us, family.expected_us(step, configs[index], sizes, device));
    }
  }
  EXPECT_EQ(memo.num_weighed(), typical.size());
  // Fewer configs are another question.
  const std::span<const codegen::GemmConfig> fewer(configs.data() + 1, configs.size() - 1);
  EXPECT_EQ(memo.best(family, step, fewer, typical[0], device).index,
            codegen::choose(family, step, fewer, typical[0], device));
  for (const std::size_t most : {2u, 6u, 6u}) {
    EXPECT_EQ(memo.shortlist(family, alike, configs, typical, device, most),
              tune::shortlist(family, step, configs, typical, device, most));
  }
  EXPECT_EQ(memo.num_weighed(), typical.size() + 3);
}

}  // namespace
}  // namespace epifuse::cuda
