// The tolerance of products whose blocks of K have scales: both ways of applying them pass, single
// faults do not.
#include <gtest/gtest.h>

#include "simulated_kernel.h"

namespace epifuse::testing {
namespace {

constexpr std::int64_t kBlock = 128, kM = 8, kN = 150;
constexpr const char* kText =
    "graph g(x: e4m3[M, K], w: e4m3[N, K], s: f32[M, KB], t: f32[NB, KB]) {\n"
    "  y = scaled_matmul x, w^T, s, t\n  return y\n}\n";

enum class Fault : std::uint8_t { none, block_before, row_after, columns_after, no_scale_of_b };

class BlockScales : public ::testing::TestWithParam<std::int64_t> {
 protected:
  BlockScales()
      : k_(GetParam()),
        blocks_((k_ + kBlock - 1) / kBlock),
        x_(DType::e4m3, {kM, k_}),
        w_(DType::e4m3, {kN, k_}),
        s_(DType::f32, {kM, blocks_}),
        t_(DType::f32, {(kN + kBlock - 1) / kBlock, blocks_}) {
    std::mt19937_64 random(5);
    for (HostTensor* tensor : {&x_, &w_, &s_, &t_}) tensor->fill_normal(random);
  }

  static float at(const std::vector<double>& matrix, std::int64_t columns, std::int64_t row,
                  std::int64_t column) {
    return static_cast<float>(matrix[static_cast<std::size_t>(row * columns + column)]);
  }

  // The sum of each block times both scales, as kernels have it.
  float by_blocks(std::int64_t i, std::int64_t j, Fault fault) const {
    float sum = 0;
    for (std::int64_t block = 0; block < blocks_; ++block) {
      float part = 0;
      for (std::int64_t k = block * kBlock; k < std::min((block + 1) * kBlock, k_); ++k) {
        part += at(xs_, k_, i, k) * at(ws_, k_, j, k);
      }
      const bool is_before = fault == Fault::block_before && block == blocks_ - 1;
      const std::int64_t row = fault == Fault::row_after && i < kM - 1 ? i + 1 : i;
      const std::int64_t columns = fault == Fault::columns_after ? (j + 1) / kBlock : j / kBlock;
      float factor = at(ss_, blocks_, row, is_before ? block - 1 : block);
      if (fault != Fault::no_scale_of_b) factor *= at(ts_, blocks_, columns, block);
      sum = std::fma(part, factor, sum);
    }
    return sum;
  }

  // Elements times their scales, as the CPU has it.
  float by_elements(std::int64_t i, std::int64_t j) const {
    std::vector<float> a, b;
    for (std::int64_t k = 0; k < k_; ++k) {
      a.push_back(at(xs_, k_, i, k) * at(ss_, blocks_, i, k / kBlock));
      b.push_back(at(ws_, k_, j, k) * at(ts_, blocks_, j / kBlock, k / kBlock));
    }
    return laned_dot(a.data(), b.data(), k_);
  }

  reference::Verdict verify(const std::function<float(std::int64_t, std::int64_t)>& element) {
    xs_ = x_.values(), ws_ = w_.values(), ss_ = s_.values(), ts_ = t_.values();
    std::vector<double> result;
    for (std::int64_t i = 0; i < kM; ++i) {
      for (std::int64_t j = 0; j < kN; ++j) result.push_back(element(i, j));
    }
    HostTensor y(DType::f32, {kM, kN});
    y.fill(result);
    const std::vector<Binding> tensors{x_.bind("x"), w_.bind("w"), s_.bind("s"), t_.bind("t"),
                                       y.bind("y")};
    return reference::verify(ir::parse(kText), tensors, {}).at(0);
  }
  reference::Verdict verify(Fault fault) {
    return verify([&](std::int64_t i, std::int64_t j) { return by_blocks(i, j, fault); });
  }

  std::int64_t k_, blocks_;
  HostTensor x_, w_, s_, t_;
  std::vector<double> xs_, ws_, ss_, ts_;
};

TEST_P(BlockScales, MayBeOfSumsOrOfElements) {
  const reference::Verdict of_sums = verify(Fault::none);
  EXPECT_TRUE(of_sums.ok()) << of_sums.first_failure;
  const reference::Verdict of_elements =
      verify([this](std::int64_t i, std::int64_t j) { return by_elements(i, j); });
  EXPECT_TRUE(of_elements.ok()) << of_elements.first_failure;
}

TEST_P(BlockScales, OfAnotherRowOrColumnAreRejected) {
  EXPECT_FALSE(verify(Fault::row_after).ok());
  EXPECT_FALSE(verify(Fault::columns_after).ok());
  EXPECT_FALSE(verify(Fault::no_scale_of_b).ok());
}

TEST_P(BlockScales, OfTheBlockBeforeAreRejected) {
  if (blocks_ > 1) {
    EXPECT_FALSE(verify(Fault::block_before).ok());
  }
}

// A sum of zeros times infinity is NaN; which elements there are does not tell.
TEST_P(BlockScales, ThatAreInfiniteMayGiveAnything) {
  std::vector<double> values = s_.values();
  values.front() = std::numeric_limits<double>::infinity();
  values.back() = std::numeric_limits<double>::quiet_NaN();
  s_.fill(values);
  EXPECT_TRUE(verify(Fault::none).ok());
  EXPECT_TRUE(verify([this](std::int64_t i, std::int64_t j) { return by_elements(i, j); }).ok());
  const auto without_nan = [this](std::int64_t i, std::int64_t j) {
    return i == kM - 1 ? 0.0F : by_blocks(i, j, Fault::none);
  };
  EXPECT_FALSE(verify(without_nan).ok());
}

INSTANTIATE_TEST_SUITE_P(K, BlockScales, ::testing::Values(80, 256, 1100, 4096));

}  // namespace
}  // namespace epifuse::testing
