// Which graphs many problems are one launch of on a GPU, by kernels of which variant.
#include <gtest/gtest.h>

#include "backends/cuda/run/pointer_arrays.h"
#include "ir/text.h"

namespace epifuse::cuda {
namespace {

// The kernels of many problems on a target whose usual family copies operands by threads.
std::vector<std::pair<std::string, std::string>> sources_of(const char* text) {
  const targets::TargetInfo& target = *targets::find_target("sm_80");
  const Prepared prepared =
      prepare_uncompiled(plan::make_plan(ir::parse(text), {}), target, true, "");
  const PointerArrayRunner runner(prepared, target, nullptr);
  EXPECT_FALSE(runner.why_not()) << runner.why_not()->sentence;
  return runner.sources();
}

TEST(PointerArrayRunner, HasKernelsOfTheUsualVariant) {
  const auto sources = sources_of(
      "graph g(x: bf16[M, K], w: bf16[N, K], b: bf16[N]) {\n"
      "  h = matmul x, w^T\n  y = add h, b\n  return y\n}\n");
  ASSERT_EQ(sources.size(), 3u);
  EXPECT_NE(sources[0].second.find("vectors<2>(out.gemm().non_tma_stores[0], store0)"),
            std::string::npos)
      << sources[0].second;
  EXPECT_NE(sources[1].second.find("kPointerArrays = true"), std::string::npos);
  EXPECT_EQ(sources[1].second.find("kAlignment"), std::string::npos);
}

TEST(PointerArrayRunner, HasKernelsOfTheVariantThatTypicalProblemsAskFor) {
  const auto sources = sources_of(
      "graph g(x: bf16[M, 35], w: bf16[N, 35], r: bf16[M, N]) {\n"
      "  h = matmul x, w^T\n  y = add h, r\n  return y\n}\n");
  ASSERT_EQ(sources.size(), 3u);
  EXPECT_NE(sources[0].second.find("operand<2, true, 2>(&abi::CopiedGemmParams::b, b)"),
            std::string::npos)
      << sources[0].second;
  EXPECT_NE(sources[1].second.find("kAlignmentB = 2"), std::string::npos) << sources[1].second;
}

// Even and odd columns of one result, 2 elements apart.
TEST(PointerArrayRunner, HasKernelsOfResultsThatNoVectorsAreOf) {
  const auto sources = sources_of(
      "graph g(x: bf16[M, K], w: bf16[2*I, K]) {\n"
      "  h = matmul x, w^T\n  g0 = slice h [:, ::2]\n  u0 = slice h [:, 1::2]\n"
      "  g = silu g0\n  y = mul g, u0\n  return h, y\n}\n");
  ASSERT_EQ(sources.size(), 3u);
  EXPECT_NE(sources[0].second.find("elements(out.gemm().non_tma_stores[1], store1)"),
            std::string::npos)
      << sources[0].second;
  EXPECT_NE(sources[1].second.find("kNonTmaStores = 3"), std::string::npos) << sources[1].second;
}

}  // namespace
}  // namespace epifuse::cuda
