// What a host runs faster itself: measured sizes keep their ratios, few rows and a bias count.
#include "tune/framework_gemm.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace epifuse::tune {
namespace {

using codegen::GemmSizes;

plan::FusedGemm step_of(DType dtype, bool with_gelu) {
  plan::FusedGemm step;
  step.gemm.matmul = 2;
  step.gemm.a.dtype = step.gemm.b.dtype = step.gemm.result = dtype;
  step.epilogue.num_accumulators = 1;
  step.epilogue.loads.push_back({"b", 3, dtype, plan::Access::row});
  step.epilogue.computes.push_back({ir::Op::add, {0, 1, -1}});
  if (with_gelu) step.epilogue.computes.push_back({ir::Op::gelu_erf, {2, -1, -1}});
  step.epilogue.stores.push_back({"y", 4, dtype, plan::StoreKind::tile, with_gelu ? 3 : 2});
  return step;
}

struct Row {
  DType dtype;
  GemmSizes sizes;
  double bias, more;
};
constexpr Row kRows[] = {
#define EPIFUSE_FRAMEWORK_GEMM(dtype, m, n, k, bias, more) {DType::dtype, {1, m, n, k}, bias, more},
#include "tune/framework_gemm.def"
#undef EPIFUSE_FRAMEWORK_GEMM
};

TEST(HostGemm, MeasuredSizesKeepTheirRatiosBesideACall) {
  for (const Row& row : kRows) {
    const double rows = std::max<double>(static_cast<double>(row.sizes.m), 8);
    const double call =
        4e6 / (rows * static_cast<double>(row.sizes.n) * static_cast<double>(row.sizes.k));
    EXPECT_NEAR(*framework_ratio(step_of(row.dtype, false), row.sizes), row.bias + call, 1e-4);
    EXPECT_NEAR(*framework_ratio(step_of(row.dtype, true), row.sizes), row.more + call, 1e-4);
  }
}

TEST(HostGemm, NothingIsSaidOfWhatWasNotMeasured) {
  const GemmSizes sizes{1, 16, 3072, 768};
  EXPECT_TRUE(framework_ratio(step_of(DType::f32, true), sizes));
  EXPECT_FALSE(framework_ratio(step_of(DType::f16, true), sizes));
  EXPECT_FALSE(framework_ratio(step_of(DType::f32, true), {4, 16, 3072, 768}));
  EXPECT_FALSE(framework_ratio(step_of(DType::f32, true), {1, 0, 3072, 768}));
  plan::FusedGemm mixed = step_of(DType::f32, true);
  mixed.gemm.b.dtype = DType::bf16;
  EXPECT_FALSE(framework_ratio(mixed, sizes));
}

TEST(HostGemm, LeavesAMarginForTheScatterOfMeasurements) {
  EXPECT_FALSE(is_framework_faster(0.85));
  EXPECT_TRUE(is_framework_faster(0.95));
}

}  // namespace
}  // namespace epifuse::tune
