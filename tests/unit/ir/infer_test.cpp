// Result types of every kind of op, and the exact text of its errors.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>

#include "epifuse/error.h"
#include "ir/graph.h"
#include "small_graph.h"

namespace epifuse::ir {
namespace {

const Dim kM("M"), kN("N"), kB("B");
const std::string kOrWeights = ", or the first bf16 or f16 and the second e4m3, e5m2 or i8";

void expect_error(const std::function<void()>& build, const std::string& message) {
  try {
    build();
    ADD_FAILURE() << "taken; expected: " << message;
  } catch (const GraphError& error) {
    EXPECT_EQ(error.what(), message);
  }
}

class Infer : public testing::Test {
 protected:
  TensorType type_of(ValueId id) const { return g.type(id); }

  SmallGraph g;
  const ValueId x = g.input("x", DType::bf16, {kM, 768});
  const ValueId bias = g.input("bias", DType::bf16, {768});
  const ValueId f = g.input("f", DType::f32, {kM, 768});
  const ValueId h = g.input("h", DType::e4m3, {kM, 768});
  const ValueId alpha = g.scalar("alpha");
  const ValueId one = g.constant(1);
};

TEST_F(Infer, ElementwiseDtypesAndShapes) {
  const TensorType bf16_matrix{DType::bf16, {kM, 768}, {}};
  EXPECT_EQ(type_of(g.apply(Op::add, {x, bias})), bf16_matrix);
  EXPECT_EQ(type_of(g.apply(Op::mul, {alpha, x})), bf16_matrix);
  EXPECT_EQ(type_of(g.apply(Op::clamp, {x, one, alpha})), bf16_matrix);
  EXPECT_EQ(type_of(g.apply(Op::mul, {alpha, one})), (TensorType{DType::f32, {}, {}}));
  const ValueId mask = g.apply(Op::lt, {x, one});
  EXPECT_EQ(type_of(mask), (TensorType{DType::boolean, {kM, 768}, {}}));
  EXPECT_EQ(type_of(g.apply(Op::select, {mask, x, one})), bf16_matrix);
  EXPECT_EQ(type_of(g.apply(Op::select, {mask, one, alpha})),
            (TensorType{DType::f32, {kM, 768}, {}}));
  EXPECT_EQ(type_of(g.cast(mask, DType::f16)), (TensorType{DType::f16, {kM, 768}, {}}));
  EXPECT_EQ(type_of(g.cast(x, DType::e5m2)), (TensorType{DType::e5m2, {kM, 768}, {}}));
  const ValueId zero_dim = g.input("z", DType::bf16, {});
  EXPECT_EQ(type_of(g.apply(Op::add, {zero_dim, one})), (TensorType{DType::bf16, {}, {}}));
}

TEST_F(Infer, ElementwiseErrors) {
  expect_error(
      [&] {
        g.apply(Op::add, {x, f});
      },
      "add expects operands of one dtype (only 0-d f32 values go with any), got "
      "x: bf16[M, 768] and f: f32[M, 768]");
  expect_error([&] { g.apply(Op::relu, {h}); },
               "relu expects bf16, f16 or f32 operands (cast other floats first), got "
               "h: e4m3[M, 768]");
  expect_error([&] { g.apply(Op::add, {x}); }, "add expects 2 operands, got 1");
  const ValueId wide = g.input("wide", DType::bf16, {kM, 3072});
  expect_error(
      [&] {
        g.apply(Op::add, {x, wide});
      },
      "add expects shapes that broadcast (equal sizes, or 1, aligned at the right), got "
      "x: bf16[M, 768] and wide: bf16[M, 3072]");
  expect_error(
      [&] {
        g.apply(Op::select, {x, x, x});
      },
      "select expects a bool condition and two float values, got x: bf16[M, 768] and "
      "x: bf16[M, 768] and x: bf16[M, 768]");
  const ValueId mask = g.apply(Op::lt, {x, one});
  expect_error(
      [&] {
        g.apply(Op::eq, {mask, mask});
      },
      "eq expects bf16, f16 or f32 operands (cast other floats first), got "
      "t7: bool[M, 768] and t7: bool[M, 768]");
  expect_error([&] { g.cast(x, DType::boolean); },
               "cast expects a float dtype to round to (compare with ne for bool), got "
               "x: bf16[M, 768]");
  expect_error([&] { g.constant(std::nan("")); }, "constant expects a number, got nan");
}

TEST_F(Infer, ZeroDimensionalNarrowValuesDoNotGoWithAny) {
  const ValueId zero_dim = g.input("z", DType::bf16, {});
  expect_error(
      [&] {
        g.apply(Op::add, {zero_dim, f});
      },
      "add expects operands of one dtype (only 0-d f32 values go with any), got "
      "z: bf16[] and f: f32[M, 768]");
}

TEST_F(Infer, Matmul) {
  const ValueId w = g.input("w", DType::bf16, {64, 768});
  const ValueId batch = g.input("batch", DType::bf16, {kB, 1, 768, kN});
  EXPECT_EQ(type_of(g.matmul(x, w, DType::bf16, false, true)),
            (TensorType{DType::bf16, {kM, 64}, {}}));
  EXPECT_EQ(type_of(g.matmul(x, batch, DType::f32)), (TensorType{DType::f32, {kB, 1, kM, kN}, {}}));
  EXPECT_EQ(type_of(g.matmul(x, x, DType::bf16, true, false)),
            (TensorType{DType::bf16, {768, 768}, {}}));
}

TEST_F(Infer, MatmulErrors) {
  const ValueId w = g.input("w", DType::bf16, {64, 768});
  const std::string expects = "matmul expects [.., M, K] x [.., K, N], got ";
  expect_error([&] { g.matmul(x, w, DType::bf16); },
               expects + "x: bf16[M, 768] x w: bf16[64, 768]: K is 768 and 64");
  expect_error([&] { g.matmul(x, w, DType::bf16, true, true); },
               expects +
                   "x: bf16[M, 768] (transposed) x w: bf16[64, 768] (transposed): "
                   "K is M and 768");
  expect_error([&] { g.matmul(x, bias, DType::bf16); },
               expects + "x: bf16[M, 768] x bias: bf16[768]: both must have 2 to 5 dims");
  expect_error([&] { g.matmul(x, f, DType::bf16); },
               expects +
                   "x: bf16[M, 768] x f: f32[M, 768]: both must have the same dtype among "
                   "bf16, f16, f32, i8, or be e4m3 or e5m2 each" +
                   kOrWeights);
  expect_error([&] { g.matmul(x, w, DType::f16, false, true); },
               expects +
                   "x: bf16[M, 768] x w: bf16[64, 768] (transposed): the result must be "
                   "bf16 or f32, not f16");
  const ValueId two = g.input("two", DType::bf16, {2, kM, 768});
  const ValueId three = g.input("three", DType::bf16, {3, 768, kM});
  expect_error([&] { g.matmul(two, three, DType::bf16); },
               expects +
                   "two: bf16[2, M, 768] x three: bf16[3, 768, M]: their batch dims do not "
                   "broadcast");
}

TEST_F(Infer, MatmulOfFp8) {
  const ValueId a = g.input("a", DType::e4m3, {kM, 64}), b = g.input("b", DType::e5m2, {64, kN});
  for (const DType result : {DType::f32, DType::bf16, DType::f16}) {
    EXPECT_EQ(type_of(g.matmul(a, b, result)), (TensorType{result, {kM, kN}, {}}));
    EXPECT_EQ(type_of(g.matmul(g.transpose(b, {1, 0}), g.transpose(a, {1, 0}), result)),
              (TensorType{result, {kN, kM}, {}}));
  }
  const std::string expects = "matmul expects [.., M, K] x [.., K, N], got a: e4m3[M, 64] x ";
  expect_error([&] { g.matmul(a, b, DType::e4m3); },
               expects + "b: e5m2[64, N]: the result must be bf16, f16 or f32, not e4m3");
  const ValueId c = g.input("c", DType::bf16, {64, kN});
  expect_error([&] { g.matmul(a, c, DType::f32); },
               expects +
                   "c: bf16[64, N]: both must have the same dtype among bf16, f16, f32, i8, or be "
                   "e4m3 or e5m2 each" +
                   kOrWeights);
}

TEST_F(Infer, MatmulOfWeightsOf8Bits) {
  const ValueId w = g.input("w", DType::e5m2, {kN, 768}), t = g.input("t", DType::i8, {768, kN});
  EXPECT_EQ(type_of(g.matmul(x, w, DType::bf16, false, true)),
            (TensorType{DType::bf16, {kM, kN}, {}}));
  EXPECT_EQ(type_of(g.matmul(x, t, DType::f32)), (TensorType{DType::f32, {kM, kN}, {}}));
  EXPECT_THROW(g.matmul(x, t, DType::f16), GraphError);
  EXPECT_THROW(g.matmul(f, t, DType::f32), GraphError);
  EXPECT_THROW(g.matmul(t, x, DType::bf16, true, true), GraphError);
}

TEST_F(Infer, MatmulOfIntegers) {
  const ValueId a = g.input("a", DType::i8, {kM, 64}), b = g.input("b", DType::i8, {64, kN});
  for (const DType result : {DType::f32, DType::bf16, DType::f16}) {
    EXPECT_EQ(type_of(g.matmul(a, b, result)), (TensorType{result, {kM, kN}, {}}));
  }
  EXPECT_EQ(type_of(g.cast(a, DType::bf16)), (TensorType{DType::bf16, {kM, 64}, {}}));
  const std::string expects = "matmul expects [.., M, K] x [.., K, N], got a: i8[M, 64] x ";
  expect_error([&] { g.matmul(a, b, DType::i8); },
               expects + "b: i8[64, N]: the result must be bf16, f16 or f32, not i8");
  const ValueId c = g.input("c", DType::e4m3, {64, kN});
  expect_error([&] { g.matmul(a, c, DType::f32); },
               expects +
                   "c: e4m3[64, N]: both must have the same dtype among bf16, f16, f32, i8, or be "
                   "e4m3 or e5m2 each" +
                   kOrWeights);
}

// 2^17 products of -128 by -128 are 2^31, which 32 bits do not hold.
TEST_F(Infer, SumsOfIntegersFit32Bits) {
  const auto of_depth = [&](std::int64_t k) {
    const std::string name = "a" + std::to_string(k);
    const ValueId a = g.input(name, DType::i8, {kM, k});
    return g.matmul(a, a, DType::f32, false, true);
  };
  EXPECT_EQ(type_of(of_depth((1 << 17) - 1)).shape, (Shape{kM, kM}));
  EXPECT_THROW(of_depth(1 << 17), GraphError);
}

TEST_F(Infer, Reductions) {
  EXPECT_EQ(type_of(g.apply(Op::row_sum, {x})), (TensorType{DType::bf16, {kM, 1}, {}}));
  EXPECT_EQ(type_of(g.apply(Op::col_max, {x})), (TensorType{DType::bf16, {1, 768}, {}}));
  expect_error([&] { g.apply(Op::row_sum, {bias}); },
               "row_sum expects a bf16, f16 or f32 value of at least 2 dims, got "
               "bias: bf16[768]");
}

TEST_F(Infer, Transpose) {
  const ValueId b = g.input("b", DType::f32, {kB, kM, 4});
  EXPECT_EQ(type_of(g.transpose(b, {2, 0, 1})), (TensorType{DType::f32, {4, kB, kM}, {}}));
  for (const std::vector<int>& bad :
       std::vector<std::vector<int>>{{0, 1}, {0, 1, 1}, {0, 1, 3}, {0, -1, 2}, {}}) {
    EXPECT_THROW(g.transpose(b, bad), GraphError);
  }
  expect_error(
      [&] {
        g.transpose(b, {0, 1, 1});
      },
      "transpose expects each dim of b: f32[B, M, 4] once, got [0, 1, 1]");
}

TEST_F(Infer, Reshape) {
  EXPECT_EQ(type_of(g.reshape(x, {768 * kM})), (TensorType{DType::bf16, {768 * kM}, {}}));
  EXPECT_EQ(type_of(g.reshape(x, {kM, 12, 64})), (TensorType{DType::bf16, {kM, 12, 64}, {}}));
  EXPECT_EQ(type_of(g.reshape(one, {1, 1})), (TensorType{DType::f32, {1, 1}, {}}));
  expect_error(
      [&] {
        g.reshape(x, {kM, 12, 65});
      },
      "reshape expects a shape of 768*M elements for x: bf16[M, 768], got [M, 12, 65] "
      "with 780*M");
}

TEST_F(Infer, Broadcast) {
  EXPECT_EQ(type_of(g.broadcast(bias, {kM, 768})), (TensorType{DType::bf16, {kM, 768}, {}}));
  EXPECT_EQ(type_of(g.broadcast(one, {kB, 3})), (TensorType{DType::f32, {kB, 3}, {}}));
  expect_error(
      [&] {
        g.broadcast(bias, {768, kM});
      },
      "broadcast of bias: bf16[768] expects a shape that repeats its dims of size 1, got "
      "[768, M]");
  EXPECT_THROW(g.broadcast(x, {768}), GraphError);
}

TEST_F(Infer, Slice) {
  EXPECT_EQ(type_of(g.slice(x, {{0, kM}, {0, 768, 2}})), (TensorType{DType::bf16, {kM, 384}, {}}));
  EXPECT_EQ(type_of(g.slice(x, {{1, kM}, {5, 12, 3}})), (TensorType{DType::bf16, {kM - 1, 3}, {}}));
  EXPECT_EQ(type_of(g.slice(x, {{kM - 1, kM}, {768, 768}})), (TensorType{DType::bf16, {1, 0}, {}}));
  const ValueId even = g.input("even", DType::f32, {2 * kM});
  EXPECT_EQ(type_of(g.slice(even, {{0, 2 * kM, 2}})), (TensorType{DType::f32, {kM}, {}}));
  expect_error(
      [&] {
        g.slice(x, {{0, kM, 2}, {0, 768}});
      },
      "slice of x: bf16[M, 768] expects a step that divides the symbols' part of "
      "stop - start, got 0:M:2 of size M");
  const std::string bounds = "slice of x: bf16[M, 768] expects 0 <= start <= stop <= size, got ";
  expect_error([&] { g.slice(x, {{0, kM}, {0, 769}}); }, bounds + "0:769:1 of size 768");
  expect_error([&] { g.slice(x, {{0, kM}, {-1, 5}}); }, bounds + "-1:5:1 of size 768");
  expect_error([&] { g.slice(x, {{0, kM}, {6, 5}}); }, bounds + "6:5:1 of size 768");
  expect_error([&] { g.slice(x, {{0, kM + 1}, {0, 5}}); }, bounds + "0:M+1:1 of size M");
  expect_error(
      [&] {
        g.slice(x, {{0, kM}, {0, 5, 0}});
      },
      "slice of x: bf16[M, 768] expects steps of at least 1, got 0:5:0 of size 768");
  expect_error(
      [&] {
        g.slice(x, {{0, kM}});
      },
      "slice expects one range per dim of x: bf16[M, 768], got 1");
}

TEST_F(Infer, InputsAndLimits) {
  EXPECT_NO_THROW(g.input("s", DType::f32, {kM, 8}, {16, 1}));
  EXPECT_NO_THROW(g.input("empty", DType::f32, {0, std::int64_t{1} << 40}));
  expect_error(
      [&] {
        g.input("s", DType::f32, {kM, 8}, {1});
      },
      "input s expects one stride per dim of [M, 8], got 1 strides");
  expect_error(
      [&] {
        g.input("s", DType::f32, {kM, 8}, {-8, 1});
      },
      "input s expects strides from 0 to 2^40, got -8");
  expect_error([&] { g.input("s", DType::f32, {-1}); },
               "input expects sizes from 0 to 2^40, got [-1]");
  expect_error([&] { g.input("s", DType::f32, {(std::int64_t{1} << 40) + 1}); },
               "input expects sizes from 0 to 2^40, got [1099511627777]");
  expect_error(
      [&] {
        g.broadcast(one, {1 << 30, kM, 1 << 30});
      },
      "broadcast expects a shape of at most 2^40 elements, got "
      "[1073741824, M, 1073741824]");
  expect_error(
      [&] {
        g.input("s", DType::f32, {1, 1, 1, 1, 1, 1, 1});
      },
      "input expects a shape of at most 6 dims, got [1, 1, 1, 1, 1, 1, 1]");
}

TEST_F(Infer, AFailedAppendLeavesTheGraphAsItWas) {
  const Graph before = g.graph;
  EXPECT_THROW(g.apply(Op::add, {x, f}), GraphError);
  EXPECT_EQ(g.graph, before);
}

TEST(BroadcastShapes, FollowNumPy) {
  EXPECT_EQ(broadcast_shapes({kM, 1}, {768}), (Shape{kM, 768}));
  EXPECT_EQ(broadcast_shapes({}, {kB, 1}), (Shape{kB, 1}));
  EXPECT_EQ(broadcast_shapes({kM, 1, 3}, {1, kN, 1}), (Shape{kM, kN, 3}));
  EXPECT_EQ(broadcast_shapes({0}, {1}), (Shape{0}));
  expect_error(
      [] {
        broadcast_shapes({kB, kM, 2}, {kN, 2});
      },
      "shapes [B, M, 2] and [N, 2] do not broadcast: M against N");
  expect_error(
      [] {
        broadcast_shapes({kN, 2}, {kB, kM, 2});
      },
      "shapes [N, 2] and [B, M, 2] do not broadcast: N against M");
}

}  // namespace
}  // namespace epifuse::ir
