// Planning large graphs takes less than a second.
#include <gtest/gtest.h>

#include <ctime>
#include <string>

#include "ir/text.h"
#include "plan/plan.h"
#include "plan_checks.h"

namespace epifuse::plan {
namespace {

constexpr int kNumNodes = 10'000;
#if defined(__SANITIZE_ADDRESS__) || !defined(NDEBUG)
constexpr double kMaxSeconds = 4;  // unoptimised or instrumented code
#else
constexpr double kMaxSeconds = 1;
#endif

void expect_fast(const std::string& body, std::size_t least_steps) {
  const ir::Graph graph =
      ir::parse("graph g(x: bf16[M, 64], w: bf16[64, 64], b: bf16[64]) {\n" + body + "}\n");
  ASSERT_GE(graph.nodes.size(), static_cast<std::size_t>(kNumNodes));
  const std::clock_t start = std::clock();  // processor time: other programs do not count
  const Plan plan = make_plan(graph, {});
  const double seconds = static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;
  ::testing::Test::RecordProperty("milliseconds", static_cast<int>(seconds * 1e3));
  EXPECT_GE(plan.steps.size(), least_steps);
  EXPECT_LT(seconds, kMaxSeconds);
  EXPECT_NO_THROW(verify(plan));
  test::check_left_out(plan);
}

std::string v(int i) { return i < 0 ? "x" : "v" + std::to_string(i); }

TEST(LargeGraphs, Chain) {
  std::string body;
  for (int i = 0; i < kNumNodes; ++i) body += v(i) + " = exp " + v(i - 1) + "\n";
  expect_fast(body + "return " + v(kNumNodes - 1) + "\n", 100);
}

TEST(LargeGraphs, Layers) {
  std::string body;
  for (int i = 0; i < kNumNodes; i += 4) {
    body += v(i) + " = matmul " + v(i - 1) + ", w^T\n";
    body += v(i + 1) + " = add " + v(i) + ", b\n";
    body += v(i + 2) + " = silu " + v(i + 1) + "\n";
    body += v(i + 3) + " = add " + v(i + 2) + ", " + v(i - 1) + "\n";
  }
  expect_fast(body + "return " + v(kNumNodes - 1) + "\n", kNumNodes / 4);
}

// One value that everything reads, and one that reads everything.
TEST(LargeGraphs, FanOutAndIn) {
  std::string body = "h = matmul x, w^T\n" + v(0) + " = exp h\n";
  for (int i = 1; i < kNumNodes; i += 2) {
    body += v(i) + " = tanh h\n" + v(i + 1) + " = add " + v(i - 1) + ", " + v(i) + "\n";
  }
  expect_fast(body + "return " + v(kNumNodes) + "\n", 100);
}

// Every product is read again at the end, in reverse order.
TEST(LargeGraphs, LongSkips) {
  const int half = kNumNodes / 2;
  std::string body;
  for (int i = 0; i < half; ++i) body += v(i) + " = matmul " + v(i - 1) + ", w^T\n";
  for (int i = half; i < kNumNodes; ++i) {
    body += v(i) + " = add " + v(i - 1) + ", " + v(kNumNodes - 1 - i) + "\n";
  }
  expect_fast(body + "return " + v(kNumNodes - 1) + "\n", half);
}

}  // namespace
}  // namespace epifuse::plan
