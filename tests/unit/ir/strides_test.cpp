// Strides of inputs as programs depend on them.
#include "ir/strides.h"

#include <gtest/gtest.h>

#include "ir/text.h"

namespace epifuse::ir {
namespace {

TEST(Strides, AreZeroOneOrAny) {
  EXPECT_EQ(strides_of({Dim(64), Dim("s"), Dim(std::int64_t{0}), Dim(1)}),
            (std::vector<Stride>{Stride::any, Stride::any, Stride::zero, Stride::one}));
}

TEST(Strides, AreDeclaredOfInputsInOrder) {
  const Graph graph = parse(
      "graph g(x: f32[M, K], stride2_1: f32[K], w: f32[K, N] strides [9, 1]) {\n"
      "  y = matmul x, w\n  return y\n}\n");
  const std::vector<Stride> none, turned{Stride::one, Stride::any};
  const Graph declared = with_strides(graph, std::vector{none, {Stride::zero}, turned});
  EXPECT_EQ(print(declared),
            "graph g(x: f32[M, K], stride2_1: f32[K] strides [0], "
            "w: f32[K, N] strides [1, stride2_1_]) {\n"
            "  y = matmul x, w\n  return y\n}\n");
  EXPECT_EQ(with_strides(declared, std::vector{none, none, none})[2].type.strides, Shape{});
}

}  // namespace
}  // namespace epifuse::ir
