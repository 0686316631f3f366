// The tolerance accepts every right kernel and rejects one with a single small fault.
#include <gtest/gtest.h>

#include "simulated_kernel.h"

namespace epifuse::testing {
namespace {

constexpr const char* kBias = R"(graph g(x: bf16[M, K], w: bf16[N, K], b: bf16[N]) {
  h = matmul x, w^T
  y = add h, b
  return y
})";
constexpr const char* kBiasResidual =
    R"(graph g(x: bf16[M, K], w: bf16[N, K], b: bf16[N], r: bf16[M, N]) {
  h = matmul x, w^T
  t = add h, b
  y = add t, r
  return y
})";

std::string activation_graph(const std::string& op, const std::string& result) {
  return "graph g(x: bf16[M, K], w: bf16[N, K]) {\n  h = matmul x, w^T -> f32\n  s = " + op +
         " h\n  y = cast s -> " + result + "\n  return y\n}";
}

class Tightness : public ::testing::TestWithParam<std::int64_t> {
 protected:
  static constexpr std::int64_t kM = 16, kN = 96;
  Tightness() : problem_(kM, kN, GetParam(), 7) {}
  Problem problem_;
};

reference::Options exact() { return {.numerics = Numerics::exact}; }

TEST_P(Tightness, AcceptsEveryOrderOfAccumulation) {
  const Dot orders[] = {sequential_dot, reversed_dot, blocked_dot, laned_dot, tensor_core_dot};
  for (std::size_t i = 0; i < std::size(orders); ++i) {
    const std::vector<float> acc = problem_.product(orders[i]);
    for (DType dtype : {DType::f32, DType::bf16}) {
      HostTensor y = problem_.store(acc, dtype, [](float a, auto, auto) { return a; });
      const std::string result(name(dtype));
      const reference::Verdict verdict =
          problem_.verify("graph g(x: bf16[M, K], w: bf16[N, K]) {\n y = matmul x, w^T -> " +
                              result + "\n return y\n}",
                          y);
      EXPECT_TRUE(verdict.ok()) << "order " << i << ": " << verdict.first_failure;
    }
  }
}

TEST_P(Tightness, AcceptsFastAndExactEpilogues) {
  const std::vector<float> acc = problem_.product(tensor_core_dot);
  HostTensor fast = problem_.store(acc, DType::bf16, [&](float a, auto row, auto col) {
    return a + problem_.bias_at(col) + problem_.residual_at(row, col);
  });
  EXPECT_TRUE(problem_.verify(kBiasResidual, fast).ok());
  HostTensor rounded = problem_.store(acc, DType::bf16, [&](float a, auto row, auto col) {
    const float t = round_bf16(round_bf16(a) + problem_.bias_at(col));
    return t + problem_.residual_at(row, col);
  });
  EXPECT_TRUE(problem_.verify(kBiasResidual, rounded, exact()).ok());
}

TEST_P(Tightness, RejectsOneDroppedBiasElement) {
  const std::vector<float> acc = problem_.product(sequential_dot);
  std::int64_t num_missed = 0;
  for (std::int64_t dropped = 0; dropped < kN; ++dropped) {
    HostTensor y = problem_.store(acc, DType::bf16, [&](float a, auto, auto col) {
      return col == dropped ? a : a + problem_.bias_at(col);
    });
    const reference::Verdict verdict = problem_.verify(kBias, y);
    if (verdict.ok()) {
      ++num_missed;
      // Only a bias that is no larger than an ulp of the result can go unnoticed.
      EXPECT_LT(std::abs(problem_.bias_at(dropped)), 0x1p-6) << "column " << dropped;
    } else {
      EXPECT_LE(verdict.failed, kM);
    }
  }
  EXPECT_LE(num_missed, 2);
}

TEST_P(Tightness, RejectsOneDroppedResidualTile) {
  const std::vector<float> acc = problem_.product(sequential_dot);
  HostTensor y = problem_.store(acc, DType::bf16, [&](float a, auto row, auto col) {
    const bool in_tile = row >= 8 && col >= 32 && col < 40;
    return a + problem_.bias_at(col) + (in_tile ? 0 : problem_.residual_at(row, col));
  });
  const reference::Verdict verdict = problem_.verify(kBiasResidual, y);
  EXPECT_GE(verdict.failed, 60);
  EXPECT_LE(verdict.failed, 64);
}

TEST_P(Tightness, RejectsADroppedRoundingInExact) {
  const std::vector<float> acc = problem_.product(sequential_dot);
  // The rounding of the product is left out; the one of the sum is not.
  HostTensor y = problem_.store(acc, DType::bf16, [&](float a, auto row, auto col) {
    return round_bf16(a + problem_.bias_at(col)) + problem_.residual_at(row, col);
  });
  EXPECT_FALSE(problem_.verify(kBiasResidual, y, exact()).ok());
}

TEST_P(Tightness, RejectsAnAddedRoundingInFast) {
  const std::vector<float> acc = problem_.product(sequential_dot);
  HostTensor y = problem_.store(acc, DType::bf16, [&](float a, auto row, auto col) {
    return round_bf16(a + problem_.bias_at(col)) + problem_.residual_at(row, col);
  });
  EXPECT_FALSE(problem_.verify(kBiasResidual, y).ok());
}

TEST_P(Tightness, RejectsAnOffByOneColumn) {
  const std::vector<float> acc = problem_.product(sequential_dot);
  HostTensor y = problem_.store(acc, DType::bf16, [&](float a, auto, auto col) {
    return a + problem_.bias_at((col + 1) % kN);
  });
  EXPECT_GT(problem_.verify(kBias, y).failed, kM * kN * 9 / 10);
}

TEST_P(Tightness, RejectsALostStepOfK) {
  const std::int64_t last = problem_.k - problem_.k / 16;
  const std::vector<float> acc = problem_.product(
      [&](const float* a, const float* b, std::int64_t) { return sequential_dot(a, b, last); });
  HostTensor y = problem_.store(acc, DType::bf16, [](float a, auto, auto) { return a; });
  EXPECT_FALSE(
      problem_
          .verify("graph g(x: bf16[M, K], w: bf16[N, K]) {\n y = matmul x, w^T\n return y\n}", y)
          .ok());
}

TEST_P(Tightness, RejectsAnotherActivation) {
  const auto silu = [](float a, auto, auto) { return a / (1 + std::exp(-a)); };
  const std::vector<float> acc = problem_.product(sequential_dot);
  HostTensor y = problem_.store(acc, DType::bf16, silu);
  EXPECT_TRUE(problem_.verify(activation_graph("silu", "bf16"), y).ok());
  for (const char* other : {"gelu_erf", "gelu_tanh", "sigmoid", "hardswish", "relu"}) {
    EXPECT_FALSE(problem_.verify(activation_graph(other, "bf16"), y).ok()) << other;
  }
}

// The two forms of gelu are nowhere further apart than 4.8e-4, at |x| around 2.3: the accumulation
// must be known better than that, which N(0, 1) data at large K is not, but data of a quarter is.
TEST_P(Tightness, TellsTheFormsOfGeluApart) {
  Problem problem(kM, kN, GetParam(), 11, 0.125);
  const std::vector<float> acc = problem.product(sequential_dot);
  const auto argument = [&](float a, std::int64_t col) { return a + problem.bias_at(col); };
  HostTensor erf_form = problem.store(acc, DType::f32, [&](float a, auto, auto col) {
    const float t = argument(a, col);
    return 0.5F * t * std::erfc(t * -0.70710678F);
  });
  HostTensor tanh_form = problem.store(acc, DType::f32, [&](float a, auto, auto col) {
    const float t = argument(a, col);
    return 0.5F * t * (1 + std::tanh(0.79788456F * (t + 0.044715F * t * t * t)));
  });
  const auto graph = [](const std::string& op) {
    return "graph g(x: bf16[M, K], w: bf16[N, K], b: bf16[N]) {\n h = matmul x, w^T -> f32\n"
           " c = cast b -> f32\n t = add h, c\n y = " +
           op + " t\n return y\n}";
  };
  EXPECT_TRUE(problem.verify(graph("gelu_erf"), erf_form).ok());
  EXPECT_TRUE(problem.verify(graph("gelu_tanh"), tanh_form).ok());
  EXPECT_FALSE(problem.verify(graph("gelu_erf"), tanh_form).ok());
  EXPECT_FALSE(problem.verify(graph("gelu_tanh"), erf_form).ok());
}

INSTANTIATE_TEST_SUITE_P(K, Tightness, ::testing::Values(64, 768, 4096, 14336),
                         ::testing::PrintToStringParamName());

}  // namespace
}  // namespace epifuse::testing
