// The tolerance of TF32 products: float32 operands of which 13 mantissa bits are cut off or
// rounded.
#include <gtest/gtest.h>

#include <bit>

#include "simulated_kernel.h"

namespace epifuse::testing {
namespace {

constexpr const char* kText =
    "graph g(x: f32[M, K], w: f32[N, K]) {\n  y = matmul x, w^T\n"
    "  return y\n}\n";

float cut_off(float x) { return std::bit_cast<float>(std::bit_cast<std::uint32_t>(x) & ~0x1fffu); }
float nearest(float x) {
  return std::bit_cast<float>((std::bit_cast<std::uint32_t>(x) + 0x1000u) & ~0x1fffu);
}
float cut_to_5_bits(float x) {
  return std::bit_cast<float>(std::bit_cast<std::uint32_t>(x) & ~0x3ffffu);
}
float unchanged(float x) { return x; }

class Tf32 : public ::testing::TestWithParam<std::int64_t> {
 protected:
  static constexpr std::int64_t kM = 8, kN = 24;
  Tf32() : k_(GetParam()), x_(DType::f32, {kM, k_}), w_(DType::f32, {kN, k_}) {
    std::mt19937_64 random(11);
    x_.fill_normal(random);
    w_.fill_normal(random, 1 / std::sqrt(static_cast<double>(k_)));
  }

  reference::Verdict verify(float (*operand)(float), bool tf32) {
    const std::vector<double> x = x_.values(), w = w_.values();
    std::vector<double> result;
    for (std::int64_t i = 0; i < kM; ++i) {
      for (std::int64_t j = 0; j < kN; ++j) {
        double sum = 0;
        for (std::int64_t k = 0; k < k_; ++k) {
          const auto a = static_cast<float>(x[static_cast<std::size_t>(i * k_ + k)]);
          const auto b = static_cast<float>(w[static_cast<std::size_t>(j * k_ + k)]);
          sum += static_cast<double>(operand(a)) * static_cast<double>(operand(b));
        }
        result.push_back(sum);
      }
    }
    HostTensor y(DType::f32, {kM, kN});
    y.fill(result);
    const std::vector<Binding> tensors{x_.bind("x"), w_.bind("w"), y.bind("y")};
    reference::Options options;
    options.tf32 = tf32;
    return reference::verify(ir::parse(kText), tensors, options).at(0);
  }

  std::int64_t k_;
  HostTensor x_, w_;
};

TEST_P(Tf32, AcceptsOperandsThatAreCutOffOrRounded) {
  for (const auto operand : {unchanged, cut_off, nearest}) {
    const reference::Verdict verdict = verify(operand, true);
    EXPECT_TRUE(verdict.ok()) << verdict.first_failure;
  }
}

TEST_P(Tf32, WithoutTheOptionTheyAreWrong) {
  EXPECT_TRUE(verify(unchanged, false).ok());
  EXPECT_FALSE(verify(cut_off, false).ok());
  EXPECT_FALSE(verify(nearest, false).ok());
}

TEST_P(Tf32, RejectsOperandsOfHalfTheBits) { EXPECT_FALSE(verify(cut_to_5_bits, true).ok()); }

// Operands that TF32 holds are exact, so nothing is granted to them.
TEST_P(Tf32, GrantsNothingToOperandsThatStayAsTheyAre) {
  std::vector<double> x = x_.values(), w = w_.values();
  for (std::vector<double>* values : {&x, &w}) {
    for (double& each : *values) each = cut_off(static_cast<float>(each));
  }
  x_.fill(x);
  w_.fill(w);
  const reference::Verdict with = verify(unchanged, true), without = verify(unchanged, false);
  EXPECT_TRUE(with.ok());
  EXPECT_EQ(with.max_ratio, without.max_ratio);
}

INSTANTIATE_TEST_SUITE_P(K, Tf32, ::testing::Values(64, 768, 4096));

}  // namespace
}  // namespace epifuse::testing
