// How plans become steps of the CUDA target, and that all their kernels compile. Needs no GPU.
#include <gtest/gtest.h>

#include "backends/cuda/backend.h"
#include "backends/cuda/prepare/prepare.h"
#include "epifuse/error.h"
#include "ir/text.h"
#include "tests/unit/jit/environment.h"

namespace epifuse::cuda {
namespace {

const targets::TargetInfo& sm90() { return *targets::find_target("sm_90a"); }

class CudaPrepare : public ::testing::Test {
 protected:
  plan::Plan plan_of(const std::string& text) {
    plan::Plan plan = plan::make_plan(ir::parse(text), {});
    plan::verify(plan);
    return plan;
  }
  Prepared prepare(const std::string& text) {
    Prepared prepared = prepare_steps(plan_of(text), sm90(), jit_);
    EXPECT_EQ(prepared.plan.steps.size(), prepared.steps.size());
    for (const StepKernels& step : prepared.steps) {
      for (const Kernel& kernel : step.kernels) {
        EXPECT_EQ(kernel.binary->problems, std::vector<std::string>());
        EXPECT_EQ(std::string(kernel.binary->cubin.data(), 4), "\177ELF");
      }
    }
    return prepared;
  }

  jit::TemporaryFolder folder_;
  jit::Jit jit_{jit::KernelCache(folder_.path())};
};

std::vector<std::string> codes(const StepKernels& step) {
  std::vector<std::string> codes;
  for (const plan::WhyNot& no : step.report.why_not) codes.push_back(no.code);
  return codes;
}

TEST_F(CudaPrepare, AFusedStepIsOneKernelOfAFamily) {
  const Prepared prepared = prepare(
      "graph g(x: bf16[M, 512], w: bf16[768, 512], b: bf16[768]) {\n"
      "  h = matmul x, w^T\n  t = add h, b\n  y = silu t\n  return y\n}\n");
  ASSERT_EQ(prepared.steps.size(), 1u);
  const StepKernels& step = prepared.steps[0];
  EXPECT_EQ(step.kind, StepKind::family);
  ASSERT_FALSE(step.kernels.empty());
  EXPECT_EQ(step.report.how.substr(0, 12), "sm90_dense, ");
  EXPECT_NE(step.report.how.find(codegen::print(step.kernels[0].config)), std::string::npos);
  EXPECT_EQ(codes(step), std::vector<std::string>());
}

TEST_F(CudaPrepare, ThePlanThatRunsKeepsTheLimitsThatItWasMadeBy) {
  targets::StepLimits one_row = targets::kBlockLimits;
  one_row.gemm.rows = 1;
  const plan::Plan plan =
      plan::make_plan(ir::parse("graph g(x: bf16[M, 512], w: bf16[768, 512], b: bf16[768]) {\n"
                                "  h = matmul x, w^T\n  y = add h, b\n  return y\n}\n"),
                      {}, one_row);
  EXPECT_EQ(prepare_uncompiled(plan, sm90(), true).plan.limits, one_row);
}

TEST_F(CudaPrepare, WhatIsToBeMeasuredIsCompiledBesideTheFirstKernelWhereSizesAreKnown) {
  const plan::Plan plan = plan_of(
      "graph g(x: bf16[256, 512], w: bf16[768, 512], b: bf16[768]) {\n"
      "  h = matmul x, w^T\n  y = add h, b\n  return y\n}\n");
  const Prepared usual = prepare_steps(plan, sm90(), jit_);
  const std::int64_t before = jit_.num_compiled();
  EXPECT_EQ(before, 1);
  const Prepared measured = prepare_steps(plan, sm90(), jit_, true, {}, "", 1);
  EXPECT_EQ(jit_.num_compiled() - before, 2) << "one more candidate, and the tail of the split";
  ASSERT_EQ(measured.steps.size(), 1u);
  EXPECT_EQ(measured.steps[0].kernels.size(), usual.steps[0].kernels.size());
}

constexpr const char* kTwoProducts =
    "graph g(x: bf16[M, 512], w: bf16[768, 512], v: bf16[512, 768]) {\n"
    "  h = matmul x, w^T\n  t = silu h\n  y = matmul t, v^T\n  return y\n}\n";

// Also what is bare: nothing is weighed against a family that is named.
TEST_F(CudaPrepare, ANamedFamilyTakesAllProducts) {
  const Prepared prepared = prepare_steps(plan_of(kTwoProducts), sm90(), jit_, true, {}, "sm80");
  ASSERT_EQ(prepared.steps.size(), 2u);
  for (const StepKernels& step : prepared.steps) {
    EXPECT_EQ(step.kind, StepKind::family);
    EXPECT_EQ(step.report.how.substr(0, 6), "sm80, ");
  }
  EXPECT_TRUE(prepared.is_named);
  EXPECT_THROW(prepare_steps(plan_of(kTwoProducts), sm90(), jit_, true, {}, "none"), ArgumentError);
}

// The vendor's bare products are as fast as any; times of its products on Hopper say nothing.
TEST_F(CudaPrepare, GpusWithoutTimesOfTheVendorFuseAllTheyCan) {
  const targets::TargetInfo& ampere = *targets::find_target("sm_80");
  const Prepared prepared = prepare_steps(plan_of(kTwoProducts), ampere, jit_);
  ASSERT_EQ(prepared.steps.size(), 2u);
  EXPECT_EQ(prepared.steps[0].report.how.substr(0, 6), "sm80, ");
  EXPECT_EQ(prepared.steps[1].kind, StepKind::vendor);
  EXPECT_FALSE(prepared.is_named);
  for (const Kernel& kernel : prepared.steps[0].kernels) {
    EXPECT_EQ(kernel.source.arch, "sm_80");
    EXPECT_EQ(kernel.binary->problems, std::vector<std::string>());
  }
}

TEST_F(CudaPrepare, WhatNoFamilyTakesIsSplitWithTheReason) {
  const Prepared prepared = prepare(
      "graph g(x: f32[M, 512], w: f32[512, 768], b: f32[768]) {\n"
      "  h = matmul x, w\n  t = add h, b\n  y = silu t\n  return y\n}\n");
  ASSERT_EQ(prepared.steps.size(), 2u);
  EXPECT_EQ(prepared.steps[0].kind, StepKind::vendor);
  EXPECT_EQ(prepared.steps[0].report.how, "cuBLASLt");
  EXPECT_EQ(codes(prepared.steps[0]), std::vector<std::string>{"tf32_not_allowed"});
  EXPECT_EQ(prepared.steps[1].kind, StepKind::tail);
  EXPECT_TRUE(plan::is_bare(std::get<plan::FusedGemm>(prepared.plan.steps[0])));
  EXPECT_EQ(prepared.plan.temporaries().size(), 1u);
  plan::verify(prepared.plan);
}

// No vendor multiplies groups: the same family has the product, and says why it has no more.
TEST_F(CudaPrepare, APartThatAFamilyTakesHasTheReasonOfTheWholeStep) {
  const Prepared prepared = prepare_steps(
      plan_of("graph g(x: bf16[1, 128], w: bf16[G, 256, 128], ends: i32[G], t: bf16[R, 256], "
              "index: i32[1]) {\n  h = grouped_matmul x, w^T, ends\n"
              "  r = take_rows t, index\n  y = add h, r\n  return y\n}\n"),
      sm90(), jit_);
  ASSERT_EQ(prepared.steps.size(), 2u);
  EXPECT_EQ(prepared.steps[0].kind, StepKind::family);
  ASSERT_FALSE(codes(prepared.steps[0]).empty());
  EXPECT_EQ(codes(prepared.steps[0])[0], "looked_up_rows");
}

TEST_F(CudaPrepare, ABareProductIsTheVendors) {
  const Prepared prepared = prepare(
      "graph g(x: bf16[M, 512], w: bf16[768, 512]) {\n  y = matmul x, w^T\n  return y\n}\n");
  ASSERT_EQ(prepared.steps.size(), 1u);
  EXPECT_EQ(prepared.steps[0].kind, StepKind::vendor);
  EXPECT_EQ(codes(prepared.steps[0]), std::vector<std::string>{"bare_product"});
}

TEST_F(CudaPrepare, ABareProductIsOursWhereThatWasMeasuredToBeFaster) {
  const plan::Plan plan = plan_of(
      "graph g(x: bf16[8192, 8192], w: bf16[8192, 8192]) {\n  y = matmul x, w^T\n  return y\n}\n");
  const Prepared fused = prepare_steps(plan, sm90(), jit_);
  ASSERT_EQ(fused.steps.size(), 1u);
  EXPECT_EQ(fused.steps[0].kind, StepKind::family);
  EXPECT_EQ(fused.steps[0].kernels.size(), 1u);
  targets::DeviceProfile unknown = targets::reference_profile(sm90());
  unknown.known = nullptr;
  const Prepared elsewhere = prepare_steps(plan, sm90(), jit_, true, unknown);
  ASSERT_EQ(elsewhere.steps.size(), 1u);
  EXPECT_EQ(elsewhere.steps[0].kind, StepKind::vendor);
  const Prepared unfused = prepare_steps(plan, sm90(), jit_, false);
  ASSERT_EQ(unfused.steps.size(), 1u);
  EXPECT_EQ(unfused.steps[0].kind, StepKind::vendor);
  EXPECT_EQ(codes(unfused.steps[0]), std::vector<std::string>{"bare_product"});
}

TEST_F(CudaPrepare, ATailFinishesTheReductionsOfAProduct) {
  const Prepared prepared = prepare(
      "graph g(x: bf16[M, 512], w: bf16[768, 512], b: bf16[768]) {\n"
      "  h = matmul x, w^T\n  t = add h, b\n  y = silu t\n  s = row_sum y\n  m = row_max t\n"
      "  return y, s, m\n}\n");
  ASSERT_EQ(prepared.steps.size(), 1u);
  const StepKernels& step = prepared.steps[0];
  EXPECT_EQ(step.kind, StepKind::family);
  EXPECT_EQ(codes(step), std::vector<std::string>());
  EXPECT_EQ(plan::num_kernels(prepared.plan), 2);
  ASSERT_TRUE(step.finalize.has_value());
  ASSERT_NE(step.finalize->kernel.binary, nullptr);
  EXPECT_EQ(step.finalize->kernel.binary->problems, std::vector<std::string>());
  EXPECT_EQ(plan::print(step.finalize->tail().epilogue),
            "load parts0: tile f32 strided\nload parts1: tile f32 strided\n"
            "store result0: bf16 = col_sum parts0\nstore result1: bf16 = col_max parts1\n");
}

TEST_F(CudaPrepare, SplittingLateGivesThePartsOfOneStep) {
  const plan::Plan plan = plan_of(
      "graph g(x: bf16[M, 512], w: bf16[768, 512], r: bf16[M, 768]) {\n"
      "  h = matmul x, w^T\n  y = add h, r\n  return y\n}\n");
  const PreparedSteps parts =
      prepare_split(plan, std::get<plan::FusedGemm>(plan.steps[0]), sm90(), jit_);
  ASSERT_EQ(parts.steps.size(), 2u);
  EXPECT_EQ(parts.kernels[0].kind, StepKind::vendor);
  EXPECT_EQ(parts.kernels[1].kind, StepKind::tail);
}

TEST_F(CudaPrepare, TailsOfEveryDtypeCompile) {
  const Prepared prepared = prepare(
      "graph g(a: e4m3[M, N], b: e5m2[N], c: f16[M, 1], d: f32[], p: scalar) {\n"
      "  a1 = cast a -> f32\n  b1 = cast b -> f32\n  c1 = cast c -> f32\n"
      "  s = mul a1, c1\n  t = add s, b1\n  u = sub t, d\n  k = gt u, p\n"
      "  v = select k, u, t\n  w = cast v -> bf16\n  z = cast v -> e5m2\n"
      "  return k, w, z\n}\n");
  for (const StepKernels& step : prepared.steps) EXPECT_EQ(step.kind, StepKind::tail);
}

TEST_F(CudaPrepare, ReductionsCompile) {
  const Prepared prepared = prepare(
      "graph g(x: bf16[B, M, N]) {\n  y = gelu_erf x\n  r = row_sum y\n  m = row_max y\n"
      "  c = col_sum x\n  d = col_max x\n  return y, r, m, c, d\n}\n");
  EXPECT_GE(prepared.steps.size(), 2u);
}

TEST_F(CudaPrepare, CopiesCompile) {
  const Prepared copy = prepare_copy(DType::f32, DType::e4m3, 3, sm90(), jit_);
  ASSERT_EQ(copy.steps.size(), 1u);
  EXPECT_FALSE(copy.steps[0].kernels.front().binary->cubin.empty());
}

TEST_F(CudaPrepare, WithoutADriverEverythingButRunWorks) {
  const jit::ScopedVariable no_driver("EPIFUSE_CUDA_DRIVER", "/nonexistent/libcuda.so.1");
  const jit::ScopedVariable cache("EPIFUSE_CACHE", folder_.path().string());
  const plan::Plan plan = plan_of("graph g(x: bf16[M, N]) {\n  y = relu x\n  return y\n}\n");
  const auto executable = cuda::prepare(plan, sm90(), {});
  EXPECT_EQ(executable->report().size(), 1u);
  const auto sources = executable->sources();
  ASSERT_EQ(sources.size(), 1u);
  EXPECT_EQ(sources[0].first, "g_0_tail.cu");
  EXPECT_NE(sources[0].second.find("#include \"kernels/common/tail.cuh\""), std::string::npos);
  EXPECT_EQ(cuda::detect(), "");
  try {
    executable->run(codegen::Bound(), nullptr);
    FAIL() << "there is no driver";
  } catch (const UnavailableError& error) {
    EXPECT_NE(std::string(error.what()).find("No GPU to run on."), std::string::npos);
    EXPECT_NE(std::string(error.what()).find("/nonexistent/libcuda.so.1"), std::string::npos);
  }
}

}  // namespace
}  // namespace epifuse::cuda
