// Labels of epilogues: how results name them.
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "ir/text.h"
#include "plan/plan.h"

namespace epifuse::plan {
namespace {

// The label of the only step of h = x @ w^T followed by `body`.
std::string label_of(const std::string& body) {
  const std::string text =
      "graph g(x: bf16[M, 64], w: bf16[N, 64], b: bf16[N], c: bf16[M, 1], r: bf16[M, N],"
      " s: bf16[M, N], alpha: scalar, z: f32[]) {\n  h = matmul x, w^T\n" +
      body + "}\n";
  const Plan plan = make_plan(ir::parse(text), {});
  EXPECT_EQ(plan.steps.size(), 1u) << print(plan);
  return label(plan.epilogue(0));
}

TEST(Label, NamesOps) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"return h\n", "identity"},
      {"t = add h, b\ny = silu t\nreturn y\n", "bias+silu"},
      {"t = add b, h\ny = gelu_tanh t\nreturn y\n", "bias+gelu_tanh"},
      {"t = add h, b\ny = add t, r\nreturn y\n", "bias+residual"},
      {"t = add h, c\nreturn t\n", "col_bias"},
      {"t = mul h, b\nu = mul t, c\ny = mul u, alpha\nreturn y\n", "row_scale+col_scale+scale"},
      {"t = mul h, 0.5\ny = mul t, z\nreturn y\n", "scale+scale"},
      {"t = mul h, r\nreturn t\n", "mul"},
      {"t = add h, 1\nreturn t\n", "add"},
      {"t = sub h, r\nreturn t\n", "sub"},
      {"t = add h, b\ny = silu t\nreturn y, t, h\n", "bias+silu+output+output"},
      {"t = cast h -> f32\ny = exp t\nreturn y\n", "exp"},
      {"q = silu r\ny = mul h, q\nreturn y\n", "silu+mul"},
      {"q = mul b, alpha\ny = add h, q\nreturn y\n", "bias"},
      {"q = add r, 1\ny = mul h, q\nreturn y\n", "add+mul"},
      {"q = cast r -> f32\nf = cast h -> f32\ny = add f, q\nreturn y\n", "residual"},
  };
  for (const auto& [body, expected] : cases) EXPECT_EQ(label_of(body), expected) << body;
}

TEST(Label, WithoutAProductNamesWhatIsThere) {
  for (const auto& [body, expected] :
       std::vector<std::pair<std::string, std::string>>{{"y = add x, 1", "add"},
                                                        {"y = add b, 2", "add"},
                                                        {"y = add b, d", "add"},
                                                        {"y = add x, b", "bias"},
                                                        {"y = add x, r", "residual"},
                                                        {"y = add x, c", "col_bias"}}) {
    const Plan plan = make_plan(ir::parse("graph g(x: f32[M, N], r: f32[M, N], b: f32[N], "
                                          "d: f32[N], c: f32[M, 1]) {\n  " +
                                          body + "\n  return y\n}\n"),
                                {});
    ASSERT_EQ(plan.steps.size(), 1u);
    EXPECT_EQ(label(plan.epilogue(0)), expected) << body;
  }
}

TEST(Label, NamesReductions) {
  const Plan plan = make_plan(
      ir::parse("graph g(x: f32[M, N]) {\n  t = exp x\n  s = row_sum t\n  return s, t\n}\n"), {});
  ASSERT_EQ(plan.steps.size(), 1u);
  EXPECT_EQ(label(plan.epilogue(0)), "exp+row_sum");
}

}  // namespace
}  // namespace epifuse::plan
