// Which steps the Hopper GEMM refuses.
#include <gtest/gtest.h>

#include <string>

#include "codegen/sm90/dense.h"
#include "ir/text.h"

namespace epifuse::codegen {
namespace {

// The code of the refusal, empty without one.
std::string refusal(const std::string& text) {
  const plan::Plan plan = plan::make_plan(ir::parse(text), {});
  const auto& step = std::get<plan::FusedGemm>(plan.steps.front());
  const auto why = sm90::why_not(plan, step, *targets::find_target("sm_90a"));
  return why ? why->code : "";
}

std::string with_biases(const std::string& last) {
  return refusal(
      "graph g(x: bf16[T, 128], w: bf16[G, 128, 256], ends: i32[G], b: bf16[256], c: bf16[256], "
      "d: bf16[256], e: bf16[256], f: bf16[G, 256]) {\n"
      "  h = grouped_matmul x, w, ends\n"
      "  bias = repeat_rows f, ends [T, 256]\n"
      "  h1 = add h, b\n  h2 = mul h1, c\n  h3 = add h2, d\n  h4 = mul h3, " +
      last + "\n  y = add h4, bias\n  return y\n}\n");
}

// A row of each group is loaded as a row vector, and there is room for four of them.
TEST(Sm90WhyNot, CountsWhatIsRepeatedForGroupsAsItIsLoaded) {
  EXPECT_EQ(with_biases("h1"), "");
  EXPECT_EQ(with_biases("e"), "too_many_rows");
}

// Of squares beside vectors alone, since full operands would be read again.
TEST(Sm90WhyNot, TakesSquaresOfTheResultBesideVectors) {
  const auto quantised = [](const std::string& operand) {
    return refusal(
        "graph g(x: e4m3[128*A, K], w: e4m3[256, K], s: f32[256], r: bf16[128*A, 256]) {\n"
        "  h = matmul x, w^T -> f32\n  f = cast r -> f32\n  y = mul h, " +
        operand +
        "\n  m = abs y\n  top = block_max m [128, 128]\n  v = div y, top\n  q = cast v -> e4m3\n"
        "  t = block_first top [128, 128]\n  return q, t\n}\n");
  };
  EXPECT_EQ(quantised("s"), "");
  EXPECT_EQ(quantised("f"), "squares_of_full_operands");
}

// Maxima of blocks are taken beside such a row, beside full operands and beside further results.
TEST(Sm90WhyNot, TakesBlocksOfTheResultBesideAllOperands) {
  const auto quantised = [](const std::string& operand) {
    return refusal(
        "graph g(x: e4m3[T, K], w: e4m3[G, 256, K], ends: i32[G], s: f32[G, 256], "
        "r: f32[T, 256]) {\n  h = grouped_matmul x, w^T, ends\n"
        "  each = repeat_rows s, ends [T, 256]\n  y = mul h, " +
        operand +
        "\n  m = abs y\n  top = block_max m\n  v = div y, top\n  q = cast v -> e4m3\n"
        "  return q, h, y\n}\n");
  };
  EXPECT_EQ(quantised("each"), "");
  EXPECT_EQ(quantised("r"), "");
}

// Of one row the load is a row vector, which goes by no index.
TEST(Sm90WhyNot, RefusesOneRowThatIsLookedUp) {
  const auto rows = [](const std::string& m) {
    return refusal("graph g(x: bf16[" + m +
                   ", 128], w: bf16[G, 128, 256], ends: i32[G], t: bf16[R, 256], index: i32[" + m +
                   "]) {\n  h = grouped_matmul x, w, ends\n  r = take_rows t, index\n"
                   "  y = add h, r\n  return y\n}\n");
  };
  EXPECT_EQ(rows("T"), "");
  EXPECT_EQ(rows("1"), "looked_up_rows");
}

// Of every access kind, and as results: no bool goes through staging or by a tensor map.
TEST(Sm90WhyNot, TakesBoolsOfEveryAccess) {
  const auto masked = [](const std::string& shape) {
    return "graph g(x: bf16[M, 128], w: bf16[256, 128], r: bf16[M, 256], m: bool" + shape +
           ") {\n  h = matmul x, w^T\n  s = add h, r\n  y = select m, 0, s\n  p = gt y, 1\n"
           "  return y, p\n}\n";
  };
  for (const char* shape : {"[M, 256]", "[M, 1]", "[256]", "[]"}) {
    EXPECT_EQ(refusal(masked(shape)), "") << shape;
  }
  const plan::Plan plan = plan::make_plan(ir::parse(masked("[M, 256]")), {});
  const auto& step = std::get<plan::FusedGemm>(plan.steps.front());
  const EpilogueLayout layout(step.epilogue);
  EXPECT_EQ(layout.unstaged(List::tiles), 2U);
  EXPECT_EQ(layout.unstaged(List::results), 2U);
  const targets::TargetInfo& target = *targets::find_target("sm_90a");
  const sm90::Config config = sm90::configs(step, target).front();
  const std::string text = sm90::source(plan, step, config, {}, target).text;
  EXPECT_NE(text.find("kNonTmaLoads = 2;"), std::string::npos);
  EXPECT_NE(text.find("kNonTmaStores = 2;"), std::string::npos);
}

// However their sums are added: 256 columns of B are the least with a block of the result.
TEST(Sm90WhyNot, TakesGatesWithBlocksOfTheResult) {
  const auto quantised = [](const std::string& product, const std::string& first,
                            const std::string& second) {
    return refusal(
        "graph g(x: e4m3[M, K], w: e4m3[512, K], s: f32[M, 1], t: f32[512], sx: f32[M, KB], "
        "sw: f32[4, KB], sr: f32[512, KB]) {\n  h0 = " +
        product + "\n  h1 = mul h0, s\n  h = mul h1, t\n  g = slice h [:, " + first +
        "]\n  u = slice h [:, " + second +
        "]\n  a = silu g\n  y = mul a, u\n  m = abs y\n  top = block_max m\n"
        "  d = div top, 448\n  e = max d, 1e-12\n  v = div y, e\n  q = cast v -> e4m3\n"
        "  scales = block_first e\n  return q, scales\n}\n");
  };
  for (const char* product : {"matmul x, w^T", "matmul x, w^T promoted",
                              "scaled_matmul x, w^T, sx, sw", "scaled_matmul x, w^T, sx, sr"}) {
    EXPECT_EQ(quantised(product, ":256", "256:"), "") << product;
    EXPECT_EQ(quantised(product, "::2", "1::2"), "") << product;
  }
}

}  // namespace
}  // namespace epifuse::codegen
