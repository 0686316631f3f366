// The tolerance of fp8 products whose sums keep few bits, as tensor cores of Hopper and Ada add
// them.
#include <gtest/gtest.h>

#include "simulated_kernel.h"

namespace epifuse::testing {
namespace {

constexpr std::int64_t kWindow = 128;  // of promoted sums
constexpr const char* kText =
    "graph g(x: e4m3[M, K], w: e4m3[N, K]) {\n  y = matmul x, w^T\n  return y\n}\n";
constexpr const char* kPromoted =
    "graph g(x: e4m3[M, K], w: e4m3[N, K]) {\n  y = matmul x, w^T promoted\n  return y\n}\n";

constexpr int kHopper = 32, kAda = 16;  // products that are added at once

// So many exact products and the accumulator are aligned to the largest of them and cut off `bits`
// bits behind its first one, and so is their sum.
double short_dot(const double* a, const double* b, std::int64_t count, int bits, int step) {
  double sum = 0;
  for (std::int64_t k0 = 0; k0 < count; k0 += step) {
    const std::int64_t k1 = std::min(k0 + step, count);
    double largest = std::abs(sum);
    for (std::int64_t k = k0; k < k1; ++k) largest = std::max(largest, std::abs(a[k] * b[k]));
    if (largest == 0) continue;
    const int exponent = std::ilogb(largest);
    double total = truncate(sum, exponent, bits + 1);
    for (std::int64_t k = k0; k < k1; ++k) total += truncate(a[k] * b[k], exponent, bits + 1);
    sum = total == 0 ? 0 : truncate(total, std::ilogb(total), bits + 1);
  }
  return sum;
}

// Whether operands are all positive, and K.
class ShortSums : public ::testing::TestWithParam<std::tuple<bool, std::int64_t>> {
 protected:
  static constexpr std::int64_t kM = 8, kN = 24;
  ShortSums() : k_(std::get<1>(GetParam())), x_(DType::e4m3, {kM, k_}), w_(DType::e4m3, {kN, k_}) {
    std::mt19937_64 random(11);
    for (HostTensor* tensor : {&x_, &w_}) {
      tensor->fill_normal(random);
      if (!std::get<0>(GetParam())) continue;
      std::vector<double> values = tensor->values();
      for (double& value : values) value = std::abs(value);
      tensor->fill(values);
    }
  }

  // Of results that leave out the first `dropped` products.
  reference::Verdict verify(int bits, int allowed_step, std::int64_t dropped = 0) {
    return verify(kText, bits, allowed_step, k_, dropped);
  }
  // `step`: of the tensor cores that are simulated.
  reference::Verdict verify(const char* text, int bits, int allowed_step, std::int64_t window,
                            std::int64_t dropped = 0, int step = kHopper) {
    const std::vector<double> x = x_.values(), w = w_.values();
    std::vector<double> result;
    for (std::int64_t i = 0; i < kM; ++i) {
      for (std::int64_t j = 0; j < kN; ++j) {
        float sum = 0;
        for (std::int64_t k = dropped; k < k_; k += window) {
          const auto part = short_dot(&x[static_cast<std::size_t>(i * k_ + k)],
                                      &w[static_cast<std::size_t>(j * k_ + k)],
                                      std::min(window, k_ - k), bits, step);
          sum += static_cast<float>(part);
        }
        result.push_back(sum);
      }
    }
    HostTensor y(DType::f32, {kM, kN});
    y.fill(result);
    const std::vector<Binding> tensors{x_.bind("x"), w_.bind("w"), y.bind("y")};
    reference::Options options;
    options.short_step = allowed_step;
    return reference::verify(ir::parse(text), tensors, options).at(0);
  }

  std::int64_t k_;
  HostTensor x_, w_;
};

TEST_P(ShortSums, AcceptsWhatTensorCoresKeep) {
  const reference::Verdict verdict = verify(13, kHopper);
  EXPECT_TRUE(verdict.ok()) << verdict.first_failure;
}

TEST_P(ShortSums, WithoutTheOptionTheyAreWrong) {
  EXPECT_FALSE(verify(13, 0).ok());
  EXPECT_TRUE(verify(23, 0).ok());
}

TEST_P(ShortSums, PromotedOnesAreHeldToLess) {
  const reference::Verdict verdict = verify(kPromoted, 13, kHopper, kWindow);
  EXPECT_TRUE(verdict.ok()) << verdict.first_failure;
}

// Twice as many additions; the kernels promote the sums of each instruction, of 32 products.
TEST_P(ShortSums, AcceptsWhatAdaKeeps) {
  const reference::Verdict verdict = verify(kText, 13, kAda, k_, 0, kAda);
  EXPECT_TRUE(verdict.ok()) << verdict.first_failure;
  for (const std::int64_t window : {std::int64_t{32}, kWindow}) {
    const reference::Verdict promoted = verify(kPromoted, 13, kAda, window, 0, kAda);
    EXPECT_TRUE(promoted.ok()) << promoted.first_failure;
  }
}

// Where all products have one sign, or K is large, tensor cores themselves lose as much.
class ShortSumsWithFaults : public ShortSums {};

TEST_P(ShortSumsWithFaults, SumsOfFiveBitsLessAreRejected) {
  EXPECT_FALSE(verify(8, kHopper).ok());
}

TEST_P(ShortSumsWithFaults, TheLossOfASixteenthOfKIsRejected) {
  EXPECT_FALSE(verify(13, kHopper, k_ / 16).ok());
}

TEST_P(ShortSumsWithFaults, PromotedSumsOfFiveBitsLessAreRejected) {
  EXPECT_FALSE(verify(kPromoted, 8, kHopper, kWindow).ok());
}

TEST_P(ShortSumsWithFaults, ThePromotedLossOfA32ndOfKIsRejected) {
  EXPECT_FALSE(verify(kPromoted, 13, kHopper, kWindow, k_ / 32).ok());
}

INSTANTIATE_TEST_SUITE_P(K, ShortSums,
                         ::testing::Combine(::testing::Bool(),
                                            ::testing::Values(64, 768, 4096, 14336)));
INSTANTIATE_TEST_SUITE_P(K, ShortSumsWithFaults,
                         ::testing::Combine(::testing::Values(false),
                                            ::testing::Values(64, 768, 4096)));

}  // namespace
}  // namespace epifuse::testing
