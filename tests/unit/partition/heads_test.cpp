// Products whose heads are read by halves: which become one kernel with the work on them.
#include <gtest/gtest.h>

#include <string>
#include <string_view>

#include "tests/unit/partition/found.h"

namespace epifuse {
namespace {

// Rotary positions on a product of so many rows, split into 4 heads of `width`.
std::string rotary(std::string_view rows, std::string_view rest = "  return y\n", int width = 128) {
  return fmt::format(
      "graph g(x: bf16[{0}, 64], w: bf16[64, {2}] strides [1, ld], c: bf16[{0}, {3}], "
      "s: bf16[{0}, {3}]) {{\n"
      "  p = matmul x, w\n  r = reshape p [{0}, 4, {3}]\n  h = transpose r [1, 0, 2]\n"
      "  t = mul h, c\n  b = slice h [:, :, {4}:]\n  n = neg b\n  a = slice h [:, :, :{4}]\n"
      "  j = concat n, a\n  u = mul j, s\n  y = add t, u\n{1}}}\n",
      rows, rest, 4 * width, width, width / 2);
}

constexpr std::string_view kLeft =
    "t: view_of_result\nn: view_of_result\nj: operand_left_out\nu: operand_left_out\n"
    "y: operand_left_out\np: nothing_to_fuse\n";
const FusionRequest kInMemory{.in_memory = {"x", "w", "y"}};

std::string kernel(std::string_view rows) {
  return fmt::format("matmul_rotary(x, w, c, s) -> y[4, {}, 128]: p t n j u y\n", rows);
}

TEST(FusionHeads, RotaryPositionsOfManyRowsAreOneKernel) {
  EXPECT_EQ(found(rotary("65"), kInMemory, kHopper), kernel("65"));
  EXPECT_EQ(found(rotary("S"), kInMemory, kHopper), kernel("S")) << "of any number of rows";
  FusionRequest request = kInMemory;
  request.likely_sizes = {{"S", 65}};
  EXPECT_EQ(found(rotary("S"), request, kHopper), kernel("S"));
}

TEST(FusionHeads, FewRowsAndCpusKeepTheirProducts) {
  EXPECT_EQ(found(rotary("64"), kInMemory, kHopper), kLeft);
  FusionRequest request = kInMemory;
  request.likely_sizes = {{"S", 64}};
  EXPECT_EQ(found(rotary("S"), request, kHopper), kLeft);
  EXPECT_EQ(found(rotary("65"), kInMemory), kLeft) << "on a CPU";
  EXPECT_EQ(found(rotary("65"), {.in_memory = {"x", "w"}}, kHopper), kLeft)
      << "where the framework reads y as it computes more of it";
}

TEST(FusionHeads, ProductsOfOneOperandAreOneLaunchUpToMoreRows) {
  const auto is_one_launch = [](std::string_view batch, std::string_view rows) {
    const std::string text = fmt::format(
        "graph g(x: bf16[{0}*{1}, 64], w: bf16[64, 512], v: bf16[64, 512], c: bf16[{1}, 128]) {{\n"
        "  p = matmul x, w\n  q = matmul x, v\n  r = reshape p [{0}, {1}, 4, 128]\n"
        "  h = transpose r [0, 2, 1, 3]\n  b = slice h [:, :, :, 64:]\n"
        "  a = slice h [:, :, :, :64]\n  j = concat b, a\n  t = mul h, c\n  u = mul j, c\n"
        "  y = add t, u\n  return y, q\n}}\n",
        batch, rows);
    const Fusions fusions =
        find_fusions(Graph::parse(text), kHopper, {}, {.in_memory = {"x", "w", "y", "q"}});
    EXPECT_EQ(fusions.kernels.size(), 1u) << "of heads, or of both products";
    return fusions.kernels.at(0).name == "matmul_side_by_side";
  };
  EXPECT_TRUE(is_one_launch("1", "1024"));
  EXPECT_FALSE(is_one_launch("1", "1025"));
  EXPECT_TRUE(is_one_launch("4", "256"));
  EXPECT_FALSE(is_one_launch("8", "256"));
}

// Their tiles would be narrow.
TEST(FusionHeads, NarrowHeadsKeepTheirProducts) {
  EXPECT_EQ(found(rotary("65", "  return y\n", 64), kInMemory, kHopper), kLeft);
  EXPECT_NE(found(rotary("65", "  return y\n", 192), kInMemory, kHopper), kLeft);
}

TEST(FusionHeads, WhatElseReadsHeadsKeepsThemWhole) {
  const std::string both = "  z = relu h\n  return y, z\n";
  EXPECT_EQ(found(rotary("65", both), {.in_memory = {"x", "w", "y", "z"}}, kHopper),
            "t: view_of_result\nn: view_of_result\nj: operand_left_out\nu: operand_left_out\n"
            "y: operand_left_out\nz: view_of_result\np: nothing_to_fuse\n");
}

// As GPT-J has them: the kernel puts heads first, and says in which order the framework has dims.
TEST(FusionHeads, HeadsBehindRowsAreAnotherOrderOfTheResult) {
  const std::string text =
      "graph g(x: bf16[254, 64], w: bf16[64, 512] strides [1, ld], c: bf16[127, 1, 64], "
      "s: bf16[127, 1, 64]) {\n"
      "  p = matmul x, w\n  h = reshape p [2, 127, 4, 128]\n"
      "  a = slice h [:, :, :, ::2]\n  b = slice h [:, :, :, 1::2]\n"
      "  t = mul a, c\n  u = mul b, s\n  m = sub t, u\n  v = mul b, c\n  z = mul a, s\n"
      "  n = add v, z\n  y = interleave m, n\n";
  const FusionRequest request{.in_memory = {"x", "w", "y"}};
  EXPECT_EQ(
      found(text + "  return y\n}\n", request, kHopper),
      "matmul_rotary(x[2, 1, 127, 64], w, c[1, 127, 64], s[1, 127, 64]) -> y[2, 4, 127, 128]: "
      "p t u m v z n y\n");
  const Fusions fusions =
      find_fusions(Graph::parse(text + "  return y\n}\n"), kHopper, {}, request);
  EXPECT_EQ(fusions.kernels.at(0).outputs.at(0).order, (std::vector{0, 2, 1, 3}));
  const std::string read = "  k = transpose y [0, 2, 1, 3]\n  q = mul k, k\n  return y, q\n}\n";
  EXPECT_TRUE(find_fusions(Graph::parse(text + read), kHopper, {}, request).kernels.empty())
      << "which no other kernel can read";
}

// No tile of rows has those of two sequences.
TEST(FusionHeads, BatchesOfRowsThatDoNotFillTilesAreLeft) {
  const auto is_kernel = [](std::string_view batch, std::string_view rows) {
    const std::string text = fmt::format(
        "graph g(x: bf16[{0}*{1}, 64], w: bf16[64, 512], c: bf16[{1}, 128]) {{\n"
        "  p = matmul x, w\n  r = reshape p [{0}, {1}, 4, 128]\n  h = transpose r [0, 2, 1, 3]\n"
        "  b = slice h [:, :, :, 64:]\n  a = slice h [:, :, :, :64]\n  j = concat b, a\n"
        "  t = mul h, c\n  u = mul j, c\n  y = add t, u\n  return y\n}}\n",
        batch, rows);
    const FusionRequest request{.in_memory = {"x", "w", "y"}, .likely_sizes = {}};
    return !find_fusions(Graph::parse(text), kHopper, {}, request).kernels.empty();
  };
  EXPECT_TRUE(is_kernel("1", "129"));
  EXPECT_FALSE(is_kernel("2", "129"));
  EXPECT_TRUE(is_kernel("2", "256"));
  EXPECT_FALSE(is_kernel("128", "2")) << "as steps of decoding for many";
  EXPECT_TRUE(is_kernel("2", "1000"));
  EXPECT_FALSE(is_kernel("2", "S"));
  EXPECT_FALSE(is_kernel("B", "S")) << "which is no reshape of a framework's with one size open";
}

// Four tables of float32 do not fit into shared memory beside the operands.
TEST(FusionHeads, WorkThatNoKernelDoesIsLeftAsItWas) {
  std::string text = rotary("65");
  for (auto at = text.find("bf16"); at != std::string::npos; at = text.find("bf16")) {
    text.replace(at, 4, "f32");
  }
  EXPECT_EQ(found(text, kInMemory, kHopper, {.allow_tf32 = true}), kLeft);
}

}  // namespace
}  // namespace epifuse
