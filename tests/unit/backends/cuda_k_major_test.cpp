// Operands of 8 bits that run along M or N, on a target whose kernels multiply them along K only:
// what is copied, and what runs without a copy.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "backends/cuda/choose/another_family.h"
#include "backends/cuda/choose/size_class.h"
#include "backends/cuda/choose/ways.h"
#include "backends/cuda/prepare/sources.h"
#include "backends/cuda/run/pointer_arrays.h"
#include "backends/cuda/run/run_builder.h"
#include "backends/pointer_arrays.h"
#include "ir/text.h"
#include "tests/unit/jit/environment.h"

namespace epifuse::cuda {
namespace {

constexpr std::string_view kOwn = "sm90_dense", kAnother = "sm80";

class KMajor : public ::testing::Test {
 protected:
  struct Compiled {
    Compiled(Prepared steps, const targets::TargetInfo& target, std::shared_ptr<jit::Jit> jit)
        : prepared(std::move(steps)), late(target, std::move(jit)) {}
    Prepared prepared;
    LateKernels late;
  };
  // y = silu(product * s) of x and w as they are named there.
  Compiled& compiled(const std::string& operands, const std::string& product) {
    const std::string text = "graph g(" + operands + ", s: f32[]) {\n  h = matmul " + product +
                             "\n  t = mul h, s\n  u = silu t\n  y = cast u -> bf16\n"
                             "  return y\n}\n";
    auto prepared = prepare_steps(plan::make_plan(ir::parse(text), {}), target_, *jit_);
    all_.push_back(std::make_unique<Compiled>(std::move(prepared), target_, jit_));
    return *all_.back();
  }
  static codegen::Bound bound(const Compiled& compiled, const Sizes& sizes) {
    return backends::bind_stand_ins(compiled.prepared.plan, sizes, DeviceKind::cuda);
  }
  StepChoice choose(Compiled& compiled, const Sizes& sizes, const ForcedChoice* forced = nullptr) {
    return choose_step(compiled.prepared, 0, compiled.late, bound(compiled, sizes),
                       {.device = device_, .forced = forced});
  }

  const targets::TargetInfo& target_ = *targets::find_target("sm_90a");
  const targets::DeviceProfile device_ = targets::reference_profile(target_);
  // Kernels of one text are compiled once for all tests.
  static void SetUpTestSuite() {
    folder_ = std::make_unique<jit::TemporaryFolder>();
    jit_ = std::make_shared<jit::Jit>(jit::KernelCache(folder_->path()));
  }
  static void TearDownTestSuite() {
    jit_.reset();
    folder_.reset();
  }
  static inline std::unique_ptr<jit::TemporaryFolder> folder_;
  static inline std::shared_ptr<jit::Jit> jit_;
  std::vector<std::unique_ptr<Compiled>> all_;
};

const Sizes kLarge{{"M", 4096}, {"N", 4096}, {"K", 4096}};

TEST_F(KMajor, LargeProductsReadCopiesOfWhatRunsAlongMAndN) {
  Compiled& both = compiled("x: e5m2[K, M], w: e4m3[K, N]", "x^T, w");
  Compiled& along_k = compiled("x: e5m2[M, K], w: e4m3[N, K]", "x, w^T");
  const StepKernels& step = both.prepared.steps.front();
  EXPECT_EQ(step.family->name, kOwn);
  ASSERT_TRUE(step.transpose);
  EXPECT_NE(step.transpose->binary, nullptr) << "compiled ahead";
  EXPECT_TRUE(step.report.how.ends_with("; behind copies along K of x and w")) << step.report.how;
  EXPECT_FALSE(along_k.prepared.steps.front().transpose);

  const StepChoice choice = choose(both, kLarge), without = choose(along_k, kLarge);
  EXPECT_FALSE(choice.why_split);
  EXPECT_TRUE(print(choice).ends_with(", behind copies along K")) << print(choice);
  EXPECT_TRUE(print(choice).starts_with(print(without))) << "one kernel";
  EXPECT_TRUE(without.k_major_copies.empty());
  ASSERT_EQ(choice.k_major_copies.size(), 2u);
  const std::vector<std::int64_t> strides{1, 4096};
  for (const AlignedCopy& copy : choice.k_major_copies) {
    EXPECT_EQ(copy.bytes, 4096u * 4096);
    EXPECT_EQ(copy.to.layout.strides, strides);
  }
  EXPECT_NEAR(choice.expected_us - without.expected_us, copies_us(choice.k_major_copies, device_),
              1e-9);
  EXPECT_GT(copies_us(choice.k_major_copies, device_), 2 * 2.0 * 4096 * 4096 / 4.8e6);
}

TEST_F(KMajor, RowsOfCopiesBeginAtLinesOfMemoryAndAreOneEach) {
  Compiled& step = compiled("x: e4m3[K, M], w: e4m3[N, K]", "x^T, w^T");
  const Sizes sizes{{"M", 2000}, {"N", 1008}, {"K", 3001 * 16}};
  const StepChoice choice = choose(step, sizes);
  ASSERT_EQ(choice.k_major_copies.size(), 1u);
  EXPECT_TRUE(print(choice).ends_with(", behind a copy along K")) << print(choice);
  const Sizes odd{{"M", 2001}, {"N", 1008}, {"K", 3002}};
  const StepChoice padded = choose(step, odd);  // beside a w that is misaligned
  ASSERT_EQ(padded.k_major_copies.size(), 1u);
  const std::vector<std::int64_t> strides{1, 3072};
  EXPECT_EQ(padded.k_major_copies[0].to.layout.strides, strides);
  EXPECT_EQ(padded.k_major_copies[0].bytes, 2001u * 3072);
}

TEST_F(KMajor, TheRunSaysSoAndTakesScratchForThem) {
  Compiled& step = compiled("x: e4m3[K, M], w: e4m3[K, N]", "x^T, w");
  const ChoiceRules rules{.device = device_};
  const codegen::Bound tensors = bound(step, kLarge);
  const backends::RunPlan run = plan_of_run(step.prepared, step.late, rules, tensors);
  ASSERT_EQ(run.how.size(), 1u);
  EXPECT_TRUE(run.how[0].ends_with(", behind copies along K")) << run.how[0];
  EXPECT_GE(workspace_bytes(step.prepared, step.late, rules, tensors), 2u * 4096 * 4096);
  EXPECT_FALSE(run.has_other_products);
}

TEST_F(KMajor, FewRowsAreMultipliedByAFamilyThatReadsWhatIsThere) {
  Compiled& step = compiled("x: e4m3[M, K], w: e4m3[K, N]", "x, w");
  const Sizes few{{"M", 8}, {"N", 4096}, {"K", 4096}};
  const StepChoice choice = choose(step, few);
  EXPECT_EQ(choice.kernels->family->name, kAnother) << print(choice);
  EXPECT_TRUE(choice.k_major_copies.empty());
  EXPECT_EQ(workspace_bytes(step.prepared, step.late, {.device = device_}, bound(step, few)), 0u);
  EXPECT_EQ(choose(step, kLarge).kernels->family->name, kOwn);

  const std::string own =
      candidate_name(step.prepared.steps[0], step.prepared.steps[0].kernels[0].config);
  const ForcedChoice forced{0, own};
  const StepChoice copied = choose(step, few, &forced);
  EXPECT_TRUE(print(copied).starts_with(own)) << print(copied);
  EXPECT_EQ(copied.k_major_copies.size(), 1u);
}

TEST_F(KMajor, WithoutACompilerFewRowsReadCopiesToo) {
  const Compiled& step = compiled("x: e4m3[M, K], w: e4m3[K, N]", "x, w");
  const jit::ScopedVariable hidden("EPIFUSE_NVRTC", "/nowhere/libnvrtc.so");
  const jit::TemporaryFolder empty;
  LateKernels late(target_, std::make_shared<jit::Jit>(jit::KernelCache(empty.path())));
  const Sizes few{{"M", 8}, {"N", 4096}, {"K", 4096}};
  const StepChoice choice =
      choose_step(step.prepared, 0, late, bound(step, few), {.device = device_});
  EXPECT_FALSE(choice.why_split);
  EXPECT_EQ(choice.kernels->family->name, kOwn) << print(choice);
  EXPECT_EQ(choice.k_major_copies.size(), 1u);
}

TEST_F(KMajor, BothFamiliesAreMeasured) {
  Compiled& step = compiled("x: i8[M, K], w: i8[K, N]", "x, w");
  const auto ways = find_ways(step.prepared, 0, step.late, bound(step, kLarge), device_, 2);
  ASSERT_TRUE(ways);
  const auto of = [&](std::string_view family) {
    return std::ranges::count_if(ways->names,
                                 [&](const std::string& name) { return name.starts_with(family); });
  };
  EXPECT_EQ(of(kOwn), 2);
  EXPECT_EQ(of(kAnother), 2);
  for (const std::string& name : ways->names) {
    if (!name.starts_with(kAnother)) continue;
    const ForcedChoice forced{0, name};
    const StepChoice choice = choose(step, kLarge, &forced);
    EXPECT_TRUE(print(choice).starts_with(name)) << print(choice);
    EXPECT_TRUE(choice.k_major_copies.empty()) << name;
    EXPECT_NE(choice.kernel->source.text.find("kBIsKMajor = false"), std::string::npos) << name;
  }
}

TEST_F(KMajor, WhatWasMeasuredCountsForThatLayoutOnly) {
  const auto key_of = [&](const Compiled& compiled) {
    const auto& gemm = std::get<plan::FusedGemm>(compiled.prepared.plan.steps.front());
    return tune::tune_key(compiled.prepared.plan, gemm, {{1, 64, 64, 64, 0}, {}, false},
                          {"a device", 13000, ""});
  };
  const std::array keys{key_of(compiled("x: e4m3[M, K], w: e4m3[N, K]", "x, w^T")),
                        key_of(compiled("x: e4m3[M, K], w: e4m3[K, N]", "x, w"))};
  EXPECT_NE(keys[0], keys[1]);
  Compiled& step = compiled("x: e4m3[M, K], w: e4m3[K, N]", "x, w");
  EXPECT_EQ(size_class(step.prepared, bound(step, kLarge)).variant, "\n");
}

// Whose value is its own other operand: x as it lies, and along its other dim.
TEST_F(KMajor, AValueThatIsReadBothWaysIsNotCopied) {
  Compiled& step = compiled("x: e4m3[K, K]", "x, x");
  EXPECT_EQ(step.prepared.steps.front().kind, StepKind::vendor);
  Compiled& gram = compiled("x: e4m3[K, N]", "x^T, x");
  ASSERT_EQ(choose(gram, {{"N", 4096}, {"K", 4096}}).k_major_copies.size(), 1u);
}

TEST_F(KMajor, ManyProblemsAreMultipliedAsTheyLie) {
  Compiled& integers = compiled("x: i8[M, K], w: i8[K, N]", "x, w");
  const PointerArrayRunner runner(integers.prepared, target_, jit_);
  ASSERT_FALSE(runner.why_not());
  EXPECT_EQ(runner.family(), kAnother);
  EXPECT_EQ(runner.sources().size(), 3u);
  Compiled& floats = compiled("x: e4m3[M, K], w: e4m3[K, N]", "x, w");
  EXPECT_TRUE(PointerArrayRunner(floats.prepared, target_, jit_).why_not());
}

TEST_F(KMajor, SourcesHaveTheCopy) {
  Compiled& step = compiled("x: i8[M, K], w: i8[K, N]", "x, w");
  const auto sources = chosen_sources(step.prepared, kLarge, target_, device_);
  ASSERT_EQ(sources.size(), 2u);
  EXPECT_EQ(sources[1].file, "g_0_transpose.cu");
  EXPECT_NE(sources[1].source.text.find("transposes::bytes(p)"), std::string::npos);
}

}  // namespace
}  // namespace epifuse::cuda
