// Products whose heads are read by halves: which become one kernel with the work on them.
#include <gtest/gtest.h>

#include <string>
#include <string_view>

#include "tests/unit/partition/found.h"

namespace epifuse {
namespace {

// Rotary positions on a product of so many rows, split into 4 heads of 16.
std::string rotary(std::string_view rows, std::string_view rest = "  return y\n") {
  return fmt::format(
      "graph g(x: bf16[{0}, 64], w: bf16[64, 64] strides [1, ld], c: bf16[{0}, 16], "
      "s: bf16[{0}, 16]) {{\n"
      "  p = matmul x, w\n  r = reshape p [{0}, 4, 16]\n  h = transpose r [1, 0, 2]\n"
      "  t = mul h, c\n  b = slice h [:, :, 8:]\n  n = neg b\n  a = slice h [:, :, :8]\n"
      "  j = concat n, a\n  u = mul j, s\n  y = add t, u\n{1}}}\n",
      rows, rest);
}

constexpr std::string_view kLeft =
    "t: view_of_result\nn: view_of_result\nj: operand_left_out\nu: operand_left_out\n"
    "y: operand_left_out\np: nothing_to_fuse\n";
const FusionRequest kInMemory{.in_memory = {"x", "w", "y"}};

std::string kernel(std::string_view rows) {
  return fmt::format("matmul_rotary(x, w, c, s) -> y[4, {}, 16]: p t n j u y\n", rows);
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

TEST(FusionHeads, WhatElseReadsHeadsKeepsThemWhole) {
  const std::string both = "  z = relu h\n  return y, z\n";
  EXPECT_EQ(found(rotary("65", both), {.in_memory = {"x", "w", "y", "z"}}, kHopper),
            "t: view_of_result\nn: view_of_result\nj: operand_left_out\nu: operand_left_out\n"
            "y: operand_left_out\nz: view_of_result\np: nothing_to_fuse\n");
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
