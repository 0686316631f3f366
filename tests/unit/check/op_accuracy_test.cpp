// The samples that ops are tried at, and what the CPU's functions make of them.
#include "check/op_accuracy.h"

#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <set>

#include "base/float_types.h"
#include "check/op_samples.h"

namespace epifuse {
namespace {

constexpr std::size_t kNumUsual = std::size_t{1} << 14;

TEST(OpSamples, OfOneOperandHoldEveryBf16Value) {
  const OpSamples samples = op_samples(1, kNumUsual);
  std::set<std::uint32_t> bf16;
  for (const float x : samples.operands[0]) {
    const auto bits = __builtin_bit_cast(std::uint32_t, x);
    if ((bits & 0xffffu) == 0) bf16.insert(bits >> 16);
  }
  EXPECT_EQ(bf16.size(), 65536u);
}

TEST(OpSamples, OfTheUsualSizesFillEveryBinadeAlike) {
  for (int arity = 1; arity <= 3; ++arity) {
    const OpSamples samples = op_samples(arity, kNumUsual);
    ASSERT_EQ(samples.usual_end - samples.usual_begin, kNumUsual);
    for (int operand = 0; operand < arity; ++operand) {
      const std::vector<float>& x = samples.operands[static_cast<std::size_t>(operand)];
      ASSERT_EQ(x.size(), samples.size());
      std::map<std::pair<int, bool>, int> counts;
      for (std::size_t i = samples.usual_begin; i < samples.usual_end; ++i) {
        ++counts[{std::ilogb(x[i]), std::signbit(x[i])}];
      }
      ASSERT_EQ(counts.size(), 54u);  // 27 binades of both signs
      const double expected = static_cast<double>(kNumUsual) / 54;
      for (const auto& [binade, count] : counts) {
        EXPECT_NEAR(count, expected, expected / 2) << binade.first;
      }
    }
  }
}

TEST(OpSamples, OfTwoOperandsPairEverySpecialValue) {
  const OpSamples samples = op_samples(2, kNumUsual);
  bool zero_by_zero = false, infinity_by_subnormal = false;
  for (std::size_t i = 0; i < samples.usual_begin; ++i) {
    const float a = samples.operands[0][i], b = samples.operands[1][i];
    zero_by_zero = zero_by_zero || (a == 0 && b == 0 && std::signbit(a) && !std::signbit(b));
    infinity_by_subnormal = infinity_by_subnormal || (std::isinf(a) && b == 0x1p-149f);
  }
  EXPECT_TRUE(zero_by_zero);
  EXPECT_TRUE(infinity_by_subnormal);
}

TEST(OpAccuracy, OfTheCpuIsWithinTheBounds) {
  for (const ir::Op op : measurable_ops()) {
    const OpAccuracy found = measure_accuracy(op, Numerics::fast, Target::cpu(), kNumUsual);
    EXPECT_EQ(found.num_refused, 0) << "of " << found.num_samples << ": " << found.first_refused;
    EXPECT_LE(found.max_share_of_bound, 1) << ir::name(op);
  }
}

TEST(OpAccuracy, OfOneRoundingIsHalfAnUlp) {
  for (const ir::Op op : {ir::Op::add, ir::Op::sub, ir::Op::mul, ir::Op::square}) {
    const OpAccuracy found = measure_accuracy(op, Numerics::fast, Target::cpu(), kNumUsual);
    EXPECT_LE(found.max_ulps, 0.5) << ir::name(op);
    EXPECT_GT(found.max_ulps, 0.49) << ir::name(op);
    EXPECT_LT(found.bf16_differ, 1e-4) << ir::name(op);
  }
  EXPECT_EQ(measure_accuracy(ir::Op::max, Numerics::fast, Target::cpu(), kNumUsual).max_ulps, 0);
}

}  // namespace
}  // namespace epifuse
