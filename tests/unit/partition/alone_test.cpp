// Products with nothing else to do.
#include <gtest/gtest.h>

#include <string>

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

// Of few rows nothing was measured.
TEST(FusionAlone, ManyRowsWithScalesOfBlocksAreAKernelOnHopper) {
  const std::string inputs =
      "graph g(x: e4m3[M, 256], w: e4m3[384, 256], sx: f32[M, 2], sw: f32[3, 2]) {\n";
  const std::string text = inputs + "  y = scaled_matmul x, w^T, sx, sw -> bf16\n  return y\n}\n";
  const FusionRequest many{.likely_sizes = {{"M", 1024}}}, few{.likely_sizes = {{"M", 1023}}};
  EXPECT_EQ(found(text, many, kHopper), "matmul_identity(x, w, sx, sw) -> y[M, 384]: y\n");
  EXPECT_EQ(found(text, few, kHopper), "y: nothing_to_fuse\n");
  EXPECT_EQ(found(text, {}, kHopper), "y: nothing_to_fuse\n") << "of any number of rows";
  EXPECT_EQ(found(text, many, {DeviceKind::cuda, "sm_89"}), "y: nothing_to_fuse\n");
  EXPECT_EQ(found(text, many), "y: nothing_to_fuse\n") << "on a CPU";
}

}  // namespace
}  // namespace epifuse
