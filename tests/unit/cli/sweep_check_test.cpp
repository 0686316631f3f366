// When a sweep takes two results for the same.
#include "cli/sweep_check.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "base/float_types.h"
#include "ir/text.h"

namespace epifuse::cli {
namespace {

std::vector<unsigned char> stored(const std::vector<double>& values, DType dtype) {
  std::vector<unsigned char> out(values.size() * size_bytes(dtype));
  for (std::size_t i = 0; i < values.size(); ++i) {
    store_element(out.data(), dtype, static_cast<std::int64_t>(i), values[i]);
  }
  return out;
}

bool are_near(const std::vector<double>& a, const std::vector<double>& b, DType dtype,
              const Slack& slack) {
  std::vector<unsigned char> bytes = stored(a, dtype);
  const TensorView view{bytes.data(), dtype, {static_cast<std::int64_t>(a.size())}};
  return are_near(view, stored(b, dtype), slack);
}

Slack slack_of_product(const std::string& operands) {
  return slack_of(
      ir::parse("graph g(x: " + operands + "[M, K], w: " + operands +
                "[N, K]) {\n  h = matmul x, w^T\n  y = cast h -> bf16\n  return y\n}\n"));
}

TEST(SweepCheck, SumsOfSixteenBitsDifferByRoundings) {
  const Slack slack = slack_of_product("bf16");
  EXPECT_TRUE(are_near({1, 2, 0}, {1 + 1 / 128.0, 2, 0.002}, DType::bf16, slack));
  EXPECT_FALSE(are_near({1, 2, 0.03}, {1, 2, 0}, DType::bf16, slack));
  EXPECT_FALSE(are_near({1 + 1 / 64.0, 2, 0}, {1, 2, 0}, DType::bf16, slack)) << "two ulps";
  EXPECT_FALSE(are_near({1, 2.25, 0}, {1, 2, 0}, DType::bf16, slack));
  EXPECT_FALSE(are_near({1, 2, NAN}, {1, 2, 3}, DType::bf16, slack));
  const double infinity = std::numeric_limits<double>::infinity();
  EXPECT_FALSE(are_near({1, 2, infinity}, {1, 2, 3}, DType::bf16, slack));
  EXPECT_FALSE(are_near({1, 2, 3}, {1, 2, infinity}, DType::bf16, slack));
  EXPECT_TRUE(are_near({1, 2, infinity}, {1, 2, infinity}, DType::bf16, slack));
}

// By 2^-9 of the root mean square on average (docs/gotchas-hopper.md), several times that at worst.
TEST(SweepCheck, FastSumsOfFp8DifferByMore) {
  const Slack slack = slack_of_product("e4m3");
  EXPECT_TRUE(are_near({1, 2, 0.03}, {1, 2, 0}, DType::bf16, slack));
  EXPECT_FALSE(are_near({1, 2, 0.5}, {1, 2, 0}, DType::bf16, slack));
  EXPECT_FALSE(are_near({1, -1, 1, -1}, {-1, 1, 1, -1}, DType::bf16, slack));
}

TEST(SweepCheck, ResultsOfEightBitsMayBeRoundedOtherwise) {
  const Slack slack = slack_of_product("e4m3");
  EXPECT_TRUE(are_near({1.125, 16, 208}, {1, 16, 192}, DType::e4m3, slack));
  EXPECT_FALSE(are_near({16, 16, 16}, {16, 16, 24}, DType::e4m3, slack));
}

}  // namespace
}  // namespace epifuse::cli
