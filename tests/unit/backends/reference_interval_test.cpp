// Intervals of single ops against values worked out by hand.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "backends/reference/interval.h"

namespace epifuse::reference {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();
const double kNaN = std::nan("");

Interval apply(ir::Op op, const std::vector<Interval>& operands,
               Numerics numerics = Numerics::fast) {
  return apply(ir::info(op), operands, numerics);
}

TEST(Interval, SumOfFloatsHasHalfAnUlpOfRoom) {
  const Interval y = apply(ir::Op::add, {exactly(1), exactly(0x1p-30)});
  EXPECT_EQ(y.value, 1 + 0x1p-30);
  EXPECT_TRUE(accepts(y, 1.0));
  EXPECT_TRUE(accepts(y, 1 + 0x1p-30));
  EXPECT_FALSE(accepts(y, 1 - 0x1p-23));
  EXPECT_FALSE(accepts(y, 1 + 0x1p-23));
}

TEST(Interval, RepresentableSumIsExact) {
  const Interval y = apply(ir::Op::add, {exactly(1.5), exactly(2.25)});
  EXPECT_EQ(y.low, 3.75);
  EXPECT_EQ(y.high, 3.75);
}

TEST(Interval, TurningPointsInsideTheOperandCount) {
  EXPECT_EQ(apply(ir::Op::abs, {{-1, 1, 2}}).low, 0);
  EXPECT_EQ(apply(ir::Op::square, {{-3, 1, 2}}).low, 0);
  EXPECT_NEAR(apply(ir::Op::square, {{-3, 1, 2}}).high, 9, 1e-5);
  // The minima of silu, gelu and hardswish, to 8 digits from their textbook curves.
  EXPECT_NEAR(apply(ir::Op::silu, {{-2, -1.5, 0}}).low, -0.27846454, 1e-6);
  EXPECT_NEAR(apply(ir::Op::gelu_erf, {{-2, -1.5, 0}}).low, -0.16997120, 1e-6);
  EXPECT_NEAR(apply(ir::Op::gelu_tanh, {{-2, -1.5, 0}}).low, -0.17004075, 1e-6);
  EXPECT_NEAR(apply(ir::Op::hardswish, {{-2.5, -2, 0}}).low, -0.375, 1e-6);
}

TEST(Interval, DivisionThroughZeroIsUnbounded) {
  const Interval y = apply(ir::Op::div, {exactly(1), {-1, 0.5, 1}});
  EXPECT_EQ(y.low, -kInf);
  EXPECT_EQ(y.high, kInf);
  EXPECT_FALSE(may_be_nan(y));
  EXPECT_TRUE(may_be_nan(apply(ir::Op::div, {{-1, 0.5, 1}, {-1, 0.5, 1}})));
}

TEST(Interval, SquareRootOfMaybeNegativeMayBeNaN) {
  const Interval y = apply(ir::Op::sqrt, {{-1e-9, 1e-9, 1e-9}});
  EXPECT_TRUE(accepts(y, kNaN));
  EXPECT_TRUE(accepts(y, 3e-5));
}

TEST(Interval, NaNMustStayNaN) {
  const Interval nan = exactly(kNaN);
  for (ir::Op op : {ir::Op::silu, ir::Op::relu, ir::Op::exp, ir::Op::neg}) {
    const Interval y = apply(op, {nan});
    EXPECT_TRUE(must_be_nan(y)) << ir::name(op);
    EXPECT_FALSE(accepts(y, 0));
  }
  EXPECT_TRUE(must_be_nan(apply(ir::Op::add, {exactly(kInf), exactly(-kInf)})));
  EXPECT_TRUE(must_be_nan(apply(ir::Op::mul, {exactly(kInf), exactly(0)})));
  EXPECT_TRUE(must_be_nan(apply(ir::Op::max, {nan, exactly(1)})));
  EXPECT_FALSE(accepts(exactly(1), kNaN));
}

TEST(Interval, InfinityMustMatch) {
  const Interval y = apply(ir::Op::exp, {exactly(1000)});
  EXPECT_TRUE(accepts(y, kInf));
  EXPECT_FALSE(accepts(y, -kInf));
  EXPECT_FALSE(accepts(y, 3e38));
}

TEST(Interval, OverflowsLikeFloat32) {
  const Interval product = apply(ir::Op::mul, {exactly(1e30), exactly(1e30)});
  EXPECT_EQ(product.low, kInf);
  // Just below the largest float32 both a number and infinity are right.
  const Interval near = apply(ir::Op::exp, {exactly(88.722839)});
  EXPECT_TRUE(accepts(near, kInf));
  EXPECT_TRUE(accepts(near, 3.4028234e38));
}

TEST(Interval, SubnormalsMayFlush) {
  const Interval y = apply(ir::Op::mul, {exactly(0x1p-100), exactly(0x1p-40)});
  EXPECT_TRUE(accepts(y, 0));
  EXPECT_TRUE(accepts(y, 0x1p-140));
  EXPECT_FALSE(accepts(y, 0x1p-126));
}

TEST(Interval, ZerosOfBothSignsAreEqual) {
  EXPECT_TRUE(accepts(exactly(0.0), -0.0));
  EXPECT_TRUE(accepts(exactly(-0.0), 0.0));
}

TEST(Interval, AComputedZeroHasEitherSignAndAReadOneItsOwn) {
  const Interval computed = apply(ir::Op::mul, {exactly(-0.0), exactly(3)});
  for (const double infinity : {kInf, -kInf}) {
    EXPECT_TRUE(accepts(apply(ir::Op::rsqrt, {computed}), infinity));
    EXPECT_TRUE(accepts(apply(ir::Op::div, {exactly(1), computed}), infinity));
    EXPECT_TRUE(accepts(apply(ir::Op::pow, {computed, exactly(-3)}), infinity));
  }
  EXPECT_FALSE(accepts(apply(ir::Op::rsqrt, {exactly(0.0)}), -kInf));
  EXPECT_FALSE(accepts(apply(ir::Op::div, {exactly(1), exactly(-0.0)}), kInf));
  EXPECT_TRUE(accepts(computed, 0.0));
  EXPECT_FALSE(accepts(computed, 0x1p-149));
}

TEST(Interval, APowerOfANegativeBaseIsANumberAtIntegersOnly) {
  const Interval base = exactly(-3);
  const Interval near_two{2 - 0x1p-23, 2 + 0x1p-30, 2 + 0x1p-22};
  EXPECT_TRUE(accepts(apply(ir::Op::pow, {base, near_two}), 9));
  EXPECT_TRUE(accepts(apply(ir::Op::pow, {base, near_two}), kNaN));
  EXPECT_TRUE(must_be_nan(apply(ir::Op::pow, {base, {2.25, 2.5, 2.75}})));
  EXPECT_FALSE(may_be_nan(apply(ir::Op::pow, {base, exactly(2)})));
}

// As IEEE 754's pow has it.
TEST(Interval, APowerOfOneAndTheZerothOfNanAreOne) {
  const Interval near_one{1 - 0x1p-24, 1 - 0x1p-60, 1 + 0x1p-24};
  const Interval near_zero{-0x1p-30, 0x1p-40, 0x1p-30};
  EXPECT_TRUE(accepts(apply(ir::Op::pow, {near_one, exactly(kNaN)}), 1));
  EXPECT_TRUE(accepts(apply(ir::Op::pow, {near_one, exactly(kNaN)}), kNaN));
  EXPECT_TRUE(accepts(apply(ir::Op::pow, {exactly(kNaN), near_zero}), 1));
  EXPECT_TRUE(accepts(apply(ir::Op::pow, {exactly(kNaN), near_zero}), kNaN));
  EXPECT_TRUE(must_be_nan(apply(ir::Op::pow, {exactly(kNaN), exactly(0.5)})));
  EXPECT_TRUE(must_be_nan(apply(ir::Op::pow, {exactly(2), exactly(kNaN)})));
}

TEST(Interval, WhatFollowsFromNothingComputedMayBeAnything) {
  const Interval nothing = undefined();
  for (const Interval& y :
       {apply(ir::Op::gt, {nothing, exactly(0)}), apply(ir::Op::relu, {nothing}),
        apply(ir::Op::select, {exactly(1), exactly(2), nothing}),
        apply(ir::Op::add, {exactly(kNaN), nothing}), round_to(nothing, DType::e4m3),
        hull(exactly(1), nothing, 1)}) {
    EXPECT_TRUE(is_undefined(y));
    for (const double result : {kNaN, kInf, -kInf, 0.0, 77.0}) EXPECT_TRUE(accepts(y, result));
  }
  EXPECT_FALSE(is_undefined(anything(kNaN)));
}

TEST(Interval, ComparisonIsOpenWhereOperandsOverlap) {
  const Interval open = apply(ir::Op::lt, {{0.9, 1, 1.1}, exactly(1)});
  EXPECT_EQ(open.low, 0);
  EXPECT_EQ(open.high, 1);
  const Interval decided = apply(ir::Op::lt, {{0.9, 0.95, 0.99}, exactly(1)});
  EXPECT_EQ(decided.low, 1);
  // 1 <= x < y is no doubt for `ge`: at the shared end both are equal.
  EXPECT_EQ(apply(ir::Op::ge, {{1, 1.5, 2}, exactly(1)}).low, 1);
  EXPECT_EQ(apply(ir::Op::eq, {{1, 1.5, 2}, exactly(1.25)}).high, 1);
  EXPECT_EQ(apply(ir::Op::eq, {{1, 1.5, 2}, exactly(1.25)}).low, 0);
}

TEST(Interval, UndecidedSelectHoldsBothBranches) {
  const Interval y = apply(ir::Op::select, {{0, 1, 1}, exactly(5), exactly(-2)});
  EXPECT_EQ(y.low, -2);
  EXPECT_EQ(y.value, 5);
  EXPECT_EQ(y.high, 5);
  EXPECT_EQ(apply(ir::Op::select, {exactly(0), exactly(5), exactly(-2)}).high, -2);
}

TEST(Interval, ApproxHasTheRoomOfItsColumnAndNoMore) {
  const double x = 2;
  const double right = x / (1 + std::exp(-x));
  const double room = 2.6e-4 * (1 + x);
  EXPECT_FALSE(accepts(apply(ir::Op::silu, {exactly(x)}), right + 0.9 * room));
  EXPECT_TRUE(accepts(apply(ir::Op::silu, {exactly(x)}, Numerics::approx), right + 0.9 * room));
  EXPECT_FALSE(accepts(apply(ir::Op::silu, {exactly(x)}, Numerics::approx), right + 1.1 * room));
}

TEST(Interval, RoundingMovesTheEnds) {
  const Interval y = round_to(Interval{1.001, 1.0039, 1.0041}, DType::bf16);
  EXPECT_EQ(y.low, 1);
  EXPECT_EQ(y.value, 1);
  EXPECT_EQ(y.high, 1.0078125);
  EXPECT_TRUE(must_be_nan(round_to(exactly(kNaN), DType::f16)));
  EXPECT_EQ(round_to(exactly(1e6), DType::f16).value, kInf);
  EXPECT_EQ(round_to(exactly(1e6), DType::e4m3).value, 448);
}

}  // namespace
}  // namespace epifuse::reference
