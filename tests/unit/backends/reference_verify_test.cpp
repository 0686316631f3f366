// What verify() checks, samples and says.
#include <gtest/gtest.h>

#include <limits>

#include "simulated_kernel.h"

namespace epifuse::testing {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();
const double kNaN = std::nan("");

// Verdict on a stored result of a graph with one input x of the given values.
reference::Verdict verify_unary(const std::string& text, const std::vector<double>& input,
                                const std::vector<double>& result,
                                const reference::Options& options = {}) {
  const auto count = static_cast<std::int64_t>(input.size());
  HostTensor x(DType::f32, {count}), y(DType::f32, {count});
  x.fill(input);
  y.fill(result);
  const std::vector<Binding> tensors{x.bind("x"), y.bind("y")};
  return reference::verify(ir::parse(text), tensors, options).at(0);
}

constexpr const char* kRelu = "graph g(x: f32[N]) {\n y = relu x\n return y\n}";

TEST(Verify, NaNInfinityAndZero) {
  EXPECT_TRUE(verify_unary(kRelu, {kNaN, kInf, -kInf, -0.0}, {kNaN, kInf, 0, 0}).ok());
  EXPECT_EQ(verify_unary(kRelu, {kNaN, kInf, -kInf, -0.0}, {0, 1, -kInf, 1}).failed, 4);
  EXPECT_EQ(verify_unary(kRelu, {1, 2}, {kNaN, kInf}).failed, 2);
}

TEST(Verify, AnEmptyResultIsRight) {
  const reference::Verdict verdict = verify_unary(kRelu, {}, {});
  EXPECT_EQ(verdict.checked, 0);
  EXPECT_TRUE(verdict.ok());
  EXPECT_FALSE(reference::Verdict{}.ok()) << "nothing checked of an output with elements";
}

TEST(Verify, SaysWhereAndWhat) {
  const reference::Verdict verdict = verify_unary(kRelu, {1, 2, 3}, {1, 2.5, 3});
  EXPECT_EQ(verdict.first_failure, "y[1]: got 2.5, expected 2 within [2, 2]");
  EXPECT_EQ(verdict.checked, 3);
  EXPECT_EQ(verdict.failed, 1);
  EXPECT_EQ(verdict.max_error, 0.5);
  EXPECT_GT(verdict.max_ratio, 1);
  EXPECT_NEAR(verdict.relative_error, 0.5 / std::sqrt(14.0), 1e-12);
}

TEST(Verify, UnwrittenResultFails) {
  HostTensor x(DType::bf16, {4, 4}), y(DType::bf16, {4, 4});
  x.fill(std::vector<double>(16, 1.0));
  const std::vector<Binding> tensors{x.bind("x"), y.bind("y")};
  const auto graph = ir::parse("graph g(x: bf16[M, N]) {\n y = neg x\n return y\n}");
  EXPECT_EQ(reference::verify(graph, tensors, {}).at(0).failed, 16);
}

TEST(Verify, SamplesWholeRowsWithTheFirstAndTheLast) {
  constexpr std::int64_t kRows = 1000, kCols = 8;
  HostTensor x(DType::f32, {kRows, kCols}), y(DType::f32, {kRows, kCols});
  std::mt19937_64 random(3);
  x.fill_normal(random);
  y.fill(x.values());
  const auto graph = ir::parse("graph g(x: f32[M, N]) {\n y = mul x, 1\n return y\n}");
  reference::Options options;
  options.max_elements = 80;
  const auto verify = [&] {
    const std::vector<Binding> tensors{x.bind("x"), y.bind("y")};
    return reference::verify(graph, tensors, options).at(0);
  };
  EXPECT_EQ(verify().checked, 80);
  EXPECT_TRUE(verify().ok());
  y.set(kRows * kCols - 1, 1e6);
  EXPECT_EQ(verify().failed, 1);
  y.set(0, 1e6);
  EXPECT_EQ(verify().failed, 2);
}

// A sum of a row takes all of its columns, the scale of a square all of its rows, too.
TEST(Verify, SamplesByWhatRowsAreComputedFrom) {
  HostTensor x(DType::f32, {256, 128}), s(DType::f32, {256, 1}), f(DType::f32, {2, 1});
  x.fill(std::vector<double>(256 * 128, 1.0));
  s.fill(std::vector<double>(256, 128.0));
  f.fill({1.0, 1.0});
  const std::vector<Binding> tensors{x.bind("x"), s.bind("s"), f.bind("f")};
  const auto graph = ir::parse(
      "graph g(x: f32[256, 128]) {\n s = row_sum x\n m = block_max x [128, 128]\n"
      " f = block_first m [128, 128]\n return s, f\n}");
  reference::Options options;
  options.max_elements = 10 * 128;
  const std::vector<reference::Verdict> verdicts = reference::verify(graph, tensors, options);
  EXPECT_EQ(verdicts.at(0).checked, 10);
  EXPECT_EQ(verdicts.at(1).checked, 2);
  EXPECT_TRUE(verdicts.at(0).ok() && verdicts.at(1).ok());
}

// The rows that matter are found through views, products and reductions of other values.
TEST(Verify, SamplingGivesTheSameVerdictAsCheckingAll) {
  Problem problem(64, 40, 24, 5);
  const std::string text = R"(graph g(x: bf16[M, K], w: bf16[N, K]) {
    h = matmul x, w^T -> f32
    t = transpose h
    u = matmul t, h
    s = row_sum u
    d = sub u, s
    y = slice d [0:N, 0:N]
    return y
  })";
  const ir::Graph graph = ir::parse(text);
  HostTensor y(DType::f32, {40, 40});
  std::vector<Binding> tensors{problem.x.bind("x"), problem.w.bind("w"), y.bind("y")};
  y.fill(reference::evaluate(graph, tensors).at(0));
  reference::Options options;
  options.max_elements = 200;
  const reference::Verdict sampled = reference::verify(graph, tensors, options).at(0);
  EXPECT_TRUE(sampled.ok()) << sampled.first_failure;
  EXPECT_EQ(sampled.checked, 200);
  EXPECT_TRUE(reference::verify(graph, tensors, {}).at(0).ok());
  y.set(39 * 40 + 7, y.get(39 * 40 + 7) + 1);
  EXPECT_EQ(reference::verify(graph, tensors, options).at(0).failed, 1);
}

TEST(Verify, MatmulWithInfinities) {
  HostTensor a(DType::f32, {4, 2}), b(DType::f32, {2, 1}), y(DType::f32, {4, 1});
  a.fill({kInf, 1, kInf, -kInf, kNaN, 1, -kInf, 1});
  b.fill({1, 1});
  const auto graph =
      ir::parse("graph g(a: f32[M, K], b: f32[K, N]) {\n y = matmul a, b\n return y\n}");
  const std::vector<Binding> tensors{a.bind("a"), b.bind("b"), y.bind("y")};
  y.fill({kInf, kNaN, kNaN, -kInf});
  EXPECT_TRUE(reference::verify(graph, tensors, {}).at(0).ok());
  y.fill({kNaN, kInf, 0, kInf});
  EXPECT_EQ(reference::verify(graph, tensors, {}).at(0).failed, 4);
}

// In one order, or rounded on their own, finite products become an infinity of the other sign.
TEST(Verify, MatmulWithInfinitiesBesideProductsBeyondFloat32) {
  HostTensor a(DType::f32, {3, 3}), b(DType::f32, {3, 1}), y(DType::f32, {3, 1});
  a.fill({-121, kInf, 1, -1, -1, kInf, -1, 1, kInf});
  b.fill({3.5e37, 1, 1});
  const auto graph =
      ir::parse("graph g(a: f32[M, K], b: f32[K, N]) {\n y = matmul a, b\n return y\n}");
  const std::vector<Binding> tensors{a.bind("a"), b.bind("b"), y.bind("y")};
  for (const double first : {kInf, kNaN, -kInf}) {
    y.fill({first, kInf, kInf});
    EXPECT_TRUE(reference::verify(graph, tensors, {}).at(0).ok());
  }
  y.fill({kInf, kNaN, -kInf});
  EXPECT_EQ(reference::verify(graph, tensors, {}).at(0).failed, 2);
}

// A sum, too, may leave float32's range before its infinity comes.
TEST(Verify, SumsWithInfinitiesBesideNumbersBeyondFloat32) {
  HostTensor x(DType::f32, {2, 4}), y(DType::f32, {2, 1});
  x.fill({-3e38, -3e38, kInf, 1, -3e38, 3e37, kInf, 1});
  const auto graph = ir::parse("graph g(x: f32[M, N]) {\n y = row_sum x\n return y\n}");
  const std::vector<Binding> tensors{x.bind("x"), y.bind("y")};
  for (const double first : {kInf, kNaN}) {
    y.fill({first, kInf});
    EXPECT_TRUE(reference::verify(graph, tensors, {}).at(0).ok());
  }
  y.fill({kInf, kNaN});
  EXPECT_EQ(reference::verify(graph, tensors, {}).at(0).failed, 1);
}

// Sums of bf16 products on CPUs read subnormals as zero; those of f32 do not.
TEST(Verify, SubnormalsInBf16MayCountAsZero) {
  const double tiny = 0x1p-130, large = 0x1p127;
  for (const DType dtype : {DType::bf16, DType::f32}) {
    const bool may_flush = dtype == DType::bf16;
    HostTensor a(dtype, {2, 2}), b(dtype, {2, 1}), y(DType::f32, {2, 1});
    a.fill({tiny, 1, 1, 1});
    b.fill({large, 1});
    const std::string type(name(dtype));
    const auto graph = ir::parse("graph g(a: " + type + "[M, K], b: " + type +
                                 "[K, N]) {\n y = matmul a, b -> f32\n return y\n}");
    const std::vector<Binding> tensors{a.bind("a"), b.bind("b"), y.bind("y")};
    y.fill({1.125, large});
    EXPECT_TRUE(reference::verify(graph, tensors, {}).at(0).ok());
    y.fill({1, large});
    EXPECT_EQ(reference::verify(graph, tensors, {}).at(0).ok(), may_flush);
    y.fill({1.5, large});
    EXPECT_FALSE(reference::verify(graph, tensors, {}).at(0).ok());
    b.fill({kInf, 1});  // 0 times infinity
    y.fill({kNaN, kInf});
    EXPECT_TRUE(reference::verify(graph, tensors, {}).at(0).ok());
  }
}

// Rows 2 and 3 are of no group: no op behind them is computed there.
TEST(Verify, RowsOfNoGroupMayBeAnythingBehindAComparisonToo) {
  HostTensor x(DType::f32, {4, 1}), w(DType::f32, {1, 1, 1}), ends(DType::i32, {1});
  HostTensor y(DType::f32, {4, 1});
  x.fill({1, -1, 1, 1});
  w.fill({1});
  ends.fill({2});
  const auto graph = ir::parse(R"(graph g(x: f32[M, K], w: f32[G, K, N], ends: i32[G]) {
    t = grouped_matmul x, w, ends
    p = gt t, 0
    y = cast p -> f32
    return y
  })");
  const std::vector<Binding> tensors{x.bind("x"), w.bind("w"), ends.bind("ends"), y.bind("y")};
  y.fill({1, 0, kNaN, 77});
  EXPECT_TRUE(reference::verify(graph, tensors, {}).at(0).ok());
  y.fill({1, 77, kNaN, 77});
  EXPECT_EQ(reference::verify(graph, tensors, {}).at(0).failed, 1);
}

TEST(Verify, NamedValuesAreRoundedInFast) {
  HostTensor x(DType::bf16, {2}), y(DType::bf16, {2});
  x.fill({256, 256});
  const auto graph =
      ir::parse("graph g(x: bf16[N]) {\n t = add x, 1\n y = sub t, 256\n return y\n}");
  const std::vector<Binding> tensors{x.bind("x"), y.bind("y")};
  y.fill({1, 0});  // unrounded, rounded
  EXPECT_EQ(reference::verify(graph, tensors, {}).at(0).first_failure,
            "y[1]: got 0, expected 1 within [1, 1]");
  reference::Options options;
  options.rounded = {"t"};
  EXPECT_EQ(reference::verify(graph, tensors, options).at(0).first_failure,
            "y[0]: got 1, expected 0 within [0, 0]");
  options.rounded = {};
  options.maybe_rounded = {"t"};
  EXPECT_TRUE(reference::verify(graph, tensors, options).at(0).ok());
}

}  // namespace
}  // namespace epifuse::testing
