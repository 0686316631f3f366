// Which steps of one A are one launch, and at which sizes.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "backends/cuda/run/run_builder.h"
#include "backends/cuda/run/run_side_by_side.h"
#include "backends/pointer_arrays.h"
#include "codegen/side_by_side.h"
#include "ir/text.h"
#include "tests/unit/jit/environment.h"

namespace epifuse::cuda {
namespace {

constexpr const char* kThree =
    "graph g(x: bf16[M, 2048], a: bf16[2048, 2048], b: bf16[512, 2048], c: bf16[512, 2048]) {\n"
    "  q = matmul x, a^T\n  k = matmul x, b^T\n  v = matmul x, c^T\n  return q, k, v\n}\n";

plan::Plan plan_of(const std::string& text) { return plan::make_plan(ir::parse(text), {}); }

// The first step and the number of steps of each range.
std::vector<std::pair<std::size_t, std::size_t>> ranges(const std::string& text,
                                                        std::size_t most = 4) {
  std::vector<std::pair<std::size_t, std::size_t>> out;
  for (const codegen::StepRange& range : codegen::side_by_side(plan_of(text), most)) {
    out.emplace_back(range.first, range.count);
  }
  return out;
}

using Ranges = std::vector<std::pair<std::size_t, std::size_t>>;

std::string two(const std::string& body, const std::string& more = "") {
  return "graph g(x: bf16[M, 64], a: bf16[N, 64], b: bf16[L, 64], r: bf16[M, N], s: bf16[N], "
         "t: bf16[L]" +
         more + ") {\n" + body + "}\n";
}

TEST(SideBySide, TakesStepsOfOneAWithOneEpilogue) {
  EXPECT_EQ(ranges(kThree), (Ranges{{0, 3}}));
  EXPECT_EQ(ranges(kThree, 2), (Ranges{{0, 2}}));
  EXPECT_EQ(ranges(two("  h = matmul x, a^T\n  y = add h, s\n  i = matmul x, b^T\n"
                       "  z = add i, t\n  return y, z\n")),
            (Ranges{{0, 2}}));
}

TEST(SideBySide, LeavesOthersAlone) {
  EXPECT_EQ(ranges(two("  h = matmul x, a^T\n  y = add h, s\n  z = matmul x, b^T\n"
                       "  return y, z\n")),
            Ranges{})
      << "another epilogue";
  EXPECT_EQ(ranges(two("  h = matmul x, a^T\n  y = add h, c\n  i = matmul x, b^T\n"
                       "  z = add i, c\n  return y, z\n",
                       ", c: bf16[]")),
            Ranges{})
      << "what both read may be overwritten by one";
  EXPECT_EQ(ranges(two("  h = matmul x, a^T\n  y = add h, r\n  i = matmul x, a^T\n"
                       "  j = mul i, r\n  k = relu j\n  return y, k\n")),
            Ranges{})
      << "what is read element by element may be overwritten";
  EXPECT_EQ(
      ranges(two("  y = matmul x, a^T\n  z = matmul c, b^T\n  return y, z\n", ", c: bf16[M, 64]")),
      Ranges{})
      << "another A";
  EXPECT_EQ(ranges("graph g(x: bf16[64, 64], c: bf16[64, 64]) {\n  y = matmul x, c\n"
                   "  z = matmul x, y\n  return y, z\n}\n"),
            Ranges{})
      << "one multiplies by what the other stores";
}

// A column of scales that all read: no result of its size in memory can lie there.
TEST(SideBySide, TakesStepsThatReadWhatNoneCanOverwrite) {
  const auto scaled = [](const char* dtype) {
    return fmt::format(
        "graph g(x: e4m3[M, 64], a: e4m3[N, 64], b: e4m3[L, 64], s: f32[M, 1]) {{\n"
        "  h = matmul x, a^T -> f32\n  p = mul h, s\n  y = cast p -> {0}\n"
        "  i = matmul x, b^T -> f32\n  q = mul i, s\n  z = cast q -> {0}\n"
        "  return y, z\n}}\n",
        dtype);
  };
  EXPECT_EQ(ranges(scaled("bf16")), (Ranges{{0, 2}}));
  EXPECT_EQ(ranges(scaled("e4m3")), (Ranges{{0, 2}}));
  EXPECT_EQ(ranges(scaled("f32")), Ranges{}) << "z of one column";
}

TEST(SideBySide, IsOneLaunch) {
  const targets::TargetInfo& target = *targets::find_target("sm_90a");
  const jit::TemporaryFolder folder;
  const auto jit = std::make_shared<jit::Jit>(jit::KernelCache(folder.path()));
  const Prepared prepared = prepare_steps(plan_of(kThree), target, *jit);
  LateKernels late(target, jit), early(target, jit, false);
  const targets::DeviceProfile device = targets::reference_profile(target);
  const auto together = [&](std::int64_t rows, LateKernels& kernels, const ChoiceRules& rules) {
    const backends::RunPlan run =
        plan_of_run(prepared, kernels, rules,
                    backends::bind_stand_ins(prepared.plan, {{"M", rows}}, DeviceKind::cuda));
    EXPECT_EQ(run.plan.steps.size(), 3);
    return std::ranges::count_if(run.how, [](const std::string& how) {
      return how.ends_with(", side by side in one launch of 3 steps");
    });
  };
  for (const std::int64_t rows : {1, 16, 17, 64, 65, 200, 2048}) {
    EXPECT_EQ(together(rows, late, {device}), 3) << rows;
  }
  EXPECT_EQ(together(0, late, {device}), 0);
  EXPECT_EQ(together(1, early, {device}), 0) << "compiles for sizes";
  const ForcedChoice forced{1, "of one step alone"};
  EXPECT_EQ(together(1, late, {.device = device, .forced = &forced}), 0);
}

// Of a kind for so many rows, all configs or every so many: each compiles as it is, and takes all
// steps.
void expect_takes_all(std::int64_t rows, std::size_t num_configs, std::size_t every = 1) {
  const targets::TargetInfo& target = *targets::find_target("sm_90a");
  const jit::TemporaryFolder folder;
  const auto jit = std::make_shared<jit::Jit>(jit::KernelCache(folder.path()));
  const Prepared prepared = prepare_steps(plan_of(kThree), target, *jit);
  LateKernels late(target, jit);
  const targets::DeviceProfile device = targets::reference_profile(target);
  const auto& step = std::get<plan::FusedGemm>(prepared.plan.steps.front());
  const codegen::SideBySideKind& kind =
      *codegen::kind_side_by_side(*late.family_side_by_side(), step, target, rows);
  const std::vector<codegen::GemmConfig> configs = kind.configs(step, target);
  EXPECT_EQ(configs.size(), num_configs);
  const codegen::Bound bound =
      backends::bind_stand_ins(prepared.plan, {{"M", rows}}, DeviceKind::cuda);
  for (std::size_t i = 0; i < configs.size(); i += every) {
    const codegen::GemmConfig& config = configs[i];
    const ForcedChoice forced{0, std::string(tune::kSideBySide) + codegen::print(config)};
    const ChoiceRules rules{.device = device, .forced = &forced};
    const backends::RunPlan run = plan_of_run(prepared, late, rules, bound);
    ASSERT_EQ(run.how.size(), 3);
    EXPECT_EQ(run.how.front(),
              "sm90_dense, " + codegen::print(config) + ", side by side in one launch of 3 steps");
  }
}

TEST(SideBySide, EveryConfigTakesAllSteps) {
  expect_takes_all(16, 8);
  expect_takes_all(64, 22);
  expect_takes_all(65, 64, 9);
}

TEST(SideBySide, TakesStepsWhoseBlocksHaveScales) {
  const auto scaled = [](const char* scales_of_x, const char* scales_of_b) {
    return fmt::format(
        "graph g(x: e4m3[M, 256], a: e4m3[256, 256], b: e4m3[128, 256], s: f32[M, 2], "
        "t: f32[M, 2], sa: f32[2, 2], sb: f32[1, 2], sr: f32[128, 2]) {{\n"
        "  y = scaled_matmul x, a^T, s, sa -> bf16\n"
        "  z = scaled_matmul x, b^T, {}, {} -> bf16\n  return y, z\n}}\n",
        scales_of_x, scales_of_b);
  };
  EXPECT_EQ(ranges(scaled("s", "sb")), (Ranges{{0, 2}}));
  EXPECT_EQ(ranges(scaled("t", "sb")), Ranges{}) << "other scales of x";
  EXPECT_EQ(ranges(scaled("s", "sr")), Ranges{}) << "b has one for each of its rows";
}

// Queries, keys and values, of which something may have been measured.
class MeasuredSideBySide : public ::testing::Test {
 protected:
  explicit MeasuredSideBySide(std::int64_t rows = 256)
      : bound_(backends::bind_stand_ins(prepared_.plan, {{"M", rows}}, DeviceKind::cuda)) {}

  std::vector<std::string> ways(std::size_t most, bool compiles) {
    return ways_side_by_side(prepared_, 0, late_, bound_, device_, most, compiles)->names;
  }
  void keep(const std::string& choice) {
    tuned_.keep(prepared_.plan, std::get<plan::FusedGemm>(prepared_.plan.steps[0]),
                *form_side_by_side(prepared_, 0, late_, bound_), {choice, "12.3 us measured"}, "");
  }
  backends::RunPlan run() {
    return plan_of_run(prepared_, late_, {.device = device_, .tuned = &tuned_}, bound_);
  }

  const targets::TargetInfo& target_ = *targets::find_target("sm_90a");
  const targets::DeviceProfile device_ = targets::reference_profile(target_);
  const jit::TemporaryFolder folder_;
  const std::shared_ptr<jit::Jit> jit_ =
      std::make_shared<jit::Jit>(jit::KernelCache(folder_.path()));
  const Prepared prepared_ = prepare_steps(plan_of(kThree), target_, *jit_);
  LateKernels late_{target_, jit_};
  codegen::Bound bound_;
  TunedChoices tuned_{{"made up", 1, ""}, tune::TuneStore(folder_.path())};
};

TEST_F(MeasuredSideBySide, TheUsualWayIsFirstThenOneByOneThenOthers) {
  const std::string usual = "side by side, ping-pong 64x128, 8 stages", apart(tune::kOneByOne);
  EXPECT_EQ(ways(3, false), (std::vector{usual, apart})) << "all that is compiled";
  const std::vector<std::string> all = ways(3, true);
  ASSERT_EQ(all.size(), 4);
  EXPECT_EQ(all[0], usual);
  EXPECT_EQ(all[1], apart);
  for (std::size_t i = 2; i < 4; ++i) EXPECT_TRUE(all[i].starts_with("side by side, ")) << all[i];
  EXPECT_EQ(ways(3, false), all) << "what was compiled since takes part";
}

TEST_F(MeasuredSideBySide, RunByWhatWasMeasured) {
  const std::string together = ", side by side in one launch of 3 steps";
  EXPECT_EQ(run().how[0], "sm90_dense, ping-pong 64x128, 8 stages" + together);
  keep("side by side, ping-pong 128x64, 8 stages");
  EXPECT_EQ(run().how[0], "sm90_dense, ping-pong 128x64, 8 stages" + together);
  EXPECT_EQ(run().grounds[0], "12.3 us measured");
}

TEST_F(MeasuredSideBySide, RunByTheModelWhereTheMeasuredKernelIsNone) {
  keep("side by side, ping-pong 24x24, 99 stages");
  EXPECT_EQ(run().how[0],
            "sm90_dense, ping-pong 64x128, 8 stages, side by side in one launch of 3 steps");
  EXPECT_NE(run().grounds[0].find(" us expected of all, "), std::string::npos) << run().grounds[0];
}

TEST_F(MeasuredSideBySide, RunOneByOneWhereThatWasFaster) {
  keep(std::string(tune::kOneByOne));
  EXPECT_EQ(run().how[0].find("side by side"), std::string::npos) << run().how[0];
  EXPECT_EQ(num_side_by_side(prepared_, 0, late_, {device_}, bound_), 3) << "by the model alone";
}

TEST_F(MeasuredSideBySide, AChoiceHoldsForTheColumnsOfAllSteps) {
  const auto& step = std::get<plan::FusedGemm>(prepared_.plan.steps[0]);
  tune::StepForm form = *form_side_by_side(prepared_, 0, late_, bound_);
  EXPECT_EQ(form.beside, (std::vector<std::int64_t>{512, 512}));
  const auto key = [&] { return tune::tune_key(prepared_.plan, step, form, {"made up", 1, ""}); };
  const std::string three = key();
  form.beside = {512};
  EXPECT_NE(key(), three);
  form.beside = {};
  EXPECT_NE(key(), three) << "the first step alone";
  EXPECT_EQ(form_side_by_side(prepared_, 1, late_, bound_), std::nullopt)
      << "not the first of them";
}

TEST(SideBySide, RunAloneWhereAllTogetherTakeLonger) {
  const targets::TargetInfo& target = *targets::find_target("sm_90a");
  const jit::TemporaryFolder folder;
  const auto jit = std::make_shared<jit::Jit>(jit::KernelCache(folder.path()));
  const Prepared prepared = prepare_steps(
      plan_of("graph g(x: bf16[16, K], a: bf16[N, K], b: bf16[N, K]) {\n  y = matmul x, a^T\n"
              "  z = matmul x, b^T\n  return y, z\n}\n"),
      target, *jit);
  LateKernels late(target, jit);
  const targets::DeviceProfile device = targets::reference_profile(target);
  const auto num_together = [&](std::int64_t columns, std::int64_t k) {
    const Sizes sizes{{"N", columns}, {"K", k}};
    return num_side_by_side(prepared, 0, late, {device},
                            backends::bind_stand_ins(prepared.plan, sizes, DeviceKind::cuda));
  };
  EXPECT_EQ(num_together(1024, 2048), 2);
  EXPECT_EQ(num_together(65536, 8192), 0) << "a gigabyte each";
}

}  // namespace
}  // namespace epifuse::cuda
