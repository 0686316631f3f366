// Products with nothing else to do.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <string>
#include <string_view>

#include "tests/unit/partition/found.h"

namespace epifuse {
namespace {

TEST(FusionGroups, GradientsOfGroupedWeightsAreAKernelAloneOnHopper) {
  const std::string inputs =
      "graph g(x: bf16[T, 64], d: bf16[T, 96], e: i32[4], t: f32[4, 64, 96]) {\n";
  const std::string alone = inputs + "  p = k_grouped_matmul x^T, d, e\n  return p\n}\n";
  const Target ampere{DeviceKind::cuda, "sm_80"};
  EXPECT_EQ(found(alone, {}, kHopper), "matmul_identity(x, d, e) -> p[4, 64, 96]: p\n");
  EXPECT_EQ(found(alone, {}, ampere), "p: nothing_to_fuse\n");
  EXPECT_EQ(found(alone), "p: nothing_to_fuse\n");
  const std::string rows = inputs + "  p = k_grouped_matmul x, d^T, e\n  return p\n}\n";
  const std::string along_k =
      "graph g(x: bf16[64, T], d: bf16[96, T], e: i32[4]) {\n" + rows.substr(inputs.size());
  EXPECT_EQ(found(along_k, {}, kHopper), "p: nothing_to_fuse\n");
  const std::string added = inputs +
                            "  p = k_grouped_matmul x^T, d, e\n  c = cast p -> f32\n"
                            "  y = add c, t\n  return y\n}\n";
  const std::string fused = "matmul_residual(x, d, e, t) -> y[4, 64, 96]: p c y\n";
  EXPECT_EQ(found(added, {.in_memory = {"y"}}, ampere), fused);
  EXPECT_EQ(found(added, {.in_memory = {"y"}}), fused);
  EXPECT_EQ(found(added, {.in_memory = {"y"}, .only_faster = true}),
            "p: framework_is_faster\nc: framework_is_faster\ny: framework_is_faster\n");
}

TEST(FusionGroups, ProductsOfGroupsOfRowsAreAKernelAloneOnHopper) {
  const std::string result = "  p = grouped_matmul x, w^T, e\n  return p\n}\n";
  const std::string text = "graph g(x: bf16[T, 64], w: bf16[4, 96, 64], e: i32[4]) {\n" + result;
  EXPECT_EQ(found(text, {}, kHopper), "matmul_identity(x, w, e) -> p[T, 96]: p\n");
  EXPECT_EQ(found(text, {}, {DeviceKind::cuda, "sm_80"}), "p: nothing_to_fuse\n");
  EXPECT_EQ(found(text), "p: nothing_to_fuse\n");
  const std::string puts =
      "graph g(x: bf16[T, 64], w: bf16[4, 96, 64], e: i32[4], i: i64[T]) {\n"
      "  p = grouped_matmul x, w^T, e\n  y = put_rows p, i [T, 96]\n  return y\n}\n";
  EXPECT_EQ(found(puts, {}, kHopper),
            "matmul_identity(x, w, e) -> p[T, 96]: p\ny: saves_nothing\n");
  EXPECT_EQ(found(puts, {.in_memory = {"y"}}, kHopper),
            "matmul_identity(x, w, e, i) -> y[T, 96]: p y\n");
  const std::string wide = "graph g(x: f32[T, 64], w: f32[4, 96, 64], e: i32[4]) {\n" + result;
  EXPECT_EQ(found(wide, {}, kHopper), "p: nothing_to_fuse\n");
}

// In between the framework's own product is faster at some sizes.
TEST(FusionAlone, ProductsWithScalesOfBlocksAreAKernelOfFewOrManyRowsOnHopper) {
  const auto text = [](std::string_view rows, int columns) {
    return fmt::format(
        "graph g(x: e4m3[{0}, 256], w: e4m3[{1}, 256], sx: f32[{0}, 2], sw: f32[{2}, 2]) {{\n"
        "  y = scaled_matmul x, w^T, sx, sw -> bf16\n  return y\n}}\n",
        rows, columns, columns / 128);
  };
  const std::string none = "y: nothing_to_fuse\n";
  for (const char* const rows : {"1", "256", "2048"}) {
    const std::string kernel =
        fmt::format("matmul_identity(x, w, sx, sw) -> y[{}, 384]: y\n", rows);
    EXPECT_EQ(found(text(rows, 384), {}, kHopper), kernel);
  }
  for (const char* const rows : {"257", "2047"})
    EXPECT_EQ(found(text(rows, 384), {}, kHopper), none);
  EXPECT_EQ(found(text("512", 7168), {}, kHopper),
            "matmul_identity(x, w, sx, sw) -> y[512, 7168]: y\n");
  const std::string any = text("M", 384);
  EXPECT_EQ(found(any, {.likely_sizes = {{"M", 16}}}, kHopper),
            "matmul_identity(x, w, sx, sw) -> y[M, 384]: y\n");
  EXPECT_EQ(found(any, {}, kHopper), none) << "of any number of rows";
  EXPECT_EQ(found(text("16", 384), {}, {DeviceKind::cuda, "sm_89"}), none);
  const std::string by_column =
      "graph g(x: e4m3[16, 256], w: e4m3[384, 256], sx: f32[16, 2], sw: f32[384, 2]) {\n"
      "  y = scaled_matmul x, w^T, sx, sw -> bf16\n  return y\n}\n";
  EXPECT_EQ(found(by_column, {}, kHopper), none) << "not ahead at all sizes measured";
  EXPECT_EQ(found(text("16", 384)), none) << "on a CPU";
}

}  // namespace
}  // namespace epifuse
