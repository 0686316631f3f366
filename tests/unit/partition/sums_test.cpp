// Sums of what products' kernels read.
#include <gtest/gtest.h>

#include <string>
#include <string_view>

#include "tests/unit/partition/found.h"

namespace epifuse {
namespace {

// The gradient of a bias: a sum of the gradient that the kernel reads as a residual.
TEST(FusionSums, SumsOfWhatAKernelReadsAreItsOwn) {
  const std::string head =
      "graph g(x: bf16[M, K], w: bf16[K, N], r: bf16[M, N]) {\n  b = col_sum r\n"
      "  h = matmul x, w\n";
  EXPECT_EQ(found(head + "  y = add h, r\n  return y, b\n}\n"),
            "matmul_residual_col_sum(x, w, r) -> y[M, N], b[1, N]: h y b\n");
  EXPECT_EQ(found(head + "  y = relu h\n  return y, b\n}\n", {.in_memory = {"y"}}),
            "matmul_relu(x, w) -> y[M, N]: h y\n");
}

// As large as the result: the kernel reads the operand's elements once more, from the L2 cache.
TEST(FusionSums, SumsOfAProductsOperandAreItsKernelsOnGpus) {
  const std::string text =
      "graph g(x: bf16[M, 512], w: bf16[512, 512], v: bf16[512, 256]) {\n  b = col_sum x\n"
      "  h = matmul x, w\n  return h, b\n}\n";
  EXPECT_EQ(found(text, {.in_memory = {"h"}}, kHopper),
            "matmul_col_sum(x, w) -> h[M, 512], b[1, 512]: h b\n");
  EXPECT_EQ(found(text, {.in_memory = {"h"}}), "h: nothing_to_fuse\n");
  const std::string narrow =
      "graph g(x: bf16[M, 512], w: bf16[512, 256]) {\n  b = col_sum x\n  h = matmul x, w\n"
      "  return h, b\n}\n";
  EXPECT_EQ(found(narrow, {.in_memory = {"h"}}, kHopper), "h: nothing_to_fuse\n");
}

TEST(FusionSums, ASumWaitsForTheKernelThatReadsWhatItSums) {
  const std::string text =
      "graph g(x: bf16[M, K], v: bf16[K, N], n: bf16[M, K], w: bf16[K, N]) {\n"
      "  a = matmul x, v\n  e = exp a\n  s = row_sum e\n  d = div e, s\n"
      "  t = reshape d [1, M, N]\n  b = col_sum d\n  c = cast b -> f32\n  h = matmul n, w\n"
      "  g = reshape h [1, M, N]\n  y = add t, g\n  return d, c, y\n}\n";
  FusionRequest request{.after = {{"n", {"d"}}}, .in_memory = {"y"}};
  EXPECT_NE(
      found(text, request).find("matmul_residual_col_sum(n, w, d) -> y[M, N], b[1, N]: h y b\n"),
      std::string::npos)
      << found(text, request);
  request.after["n"].push_back("c");  // what is asked for before does not wait
  EXPECT_NE(found(text, request).find("matmul_residual(n, w, t[M, N]) -> y[M, N]: h y\n"),
            std::string::npos)
      << found(text, request);
}

// Work on a product is summed in its own kernel, also where another one reads it.
TEST(FusionSums, ASumOfAResultStaysWithIt) {
  const std::string text =
      "graph g(x: bf16[M, K], v: bf16[K, N], n: bf16[M, K], w: bf16[K, N]) {\n"
      "  a = matmul x, v\n  e = exp a\n  b = col_sum e\n  h = matmul n, w\n  y = add e, h\n"
      "  return e, b, y\n}\n";
  const std::string lines = found(text, {.after = {{"n", {"e"}}}, .in_memory = {"e", "y"}});
  EXPECT_NE(lines.find("matmul_exp_col_sum(x, v) -> e[M, N], b[1, N]: a e b"), std::string::npos)
      << lines;
}

// The gradient of an RMS norm: sums of rows, and of columns for its weight.
std::string norm_gradient(std::string_view rows) {
  return fmt::format(
      "graph g(x: bf16[{0}, 512], w: bf16[512, 1024], r: bf16[{0}, 1024], z: bf16[{0}, 1024],\n"
      "        v: bf16[1024]) {{\n"
      "  h = matmul x, w\n  y = add h, r\n  a = mul y, v\n  b = mul y, z\n  c = col_sum b\n"
      "  e = mul a, z\n  s = row_sum e\n  t = mul z, s\n  d = sub a, t\n  return c, d\n}}\n",
      rows);
}

TEST(FusionSums, NoKernelReadsATensorForColumnsThatTheFrameworkSumsWithItsRows) {
  const std::string_view with_sums = "matmul_residual_row_scale_mul_col_sum(x, w, r, v, z) -> ";
  const std::string_view without = "matmul_residual(x, w, r) -> y[";
  const auto starts = [](std::string_view rows, const FusionRequest& request) {
    return found(norm_gradient(rows), request);
  };
  FusionRequest request{.in_memory = {"c"}};
  EXPECT_TRUE(starts("8192", request).starts_with(with_sums)) << starts("8192", request);
  request.sums_both_ways = true;
  EXPECT_TRUE(starts("8192", request).starts_with(without)) << starts("8192", request);
  EXPECT_TRUE(starts("2048", request).starts_with(with_sums));  // too few for Inductor
  EXPECT_TRUE(starts("M", request).starts_with(with_sums));
  request.likely_sizes = {{"M", 8192}};
  EXPECT_TRUE(starts("M", request).starts_with(without));
}

// Of what the kernel has stored the framework would read all once more.
TEST(FusionSums, ColumnsAreTheKernelsWhereTheFrameworkSumsNoRows) {
  const std::string text =
      "graph g(x: bf16[8192, 512], w: bf16[512, 1024], z: bf16[8192, 1024]) {\n"
      "  h = matmul x, w\n  y = mul h, z\n  c = col_sum y\n  return c, y\n}\n";
  EXPECT_EQ(found(text, {.in_memory = {"y"}, .sums_both_ways = true}),
            "matmul_mul_col_sum(x, w, z) -> y[8192, 1024], c[1, 1024]: h y c\n");
}

}  // namespace
}  // namespace epifuse
