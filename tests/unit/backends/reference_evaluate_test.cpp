// Values of small graphs, worked out by hand.
#include <gtest/gtest.h>

#include <cmath>

#include "backends/reference/evaluate.h"
#include "ir/text.h"
#include "tests/common/host_tensor.h"

namespace epifuse::reference {
namespace {

using testing::HostTensor;
using Values = std::vector<double>;

Values evaluate_one(const std::string& text, std::vector<Binding> inputs) {
  return evaluate(ir::parse(text), inputs).at(0);
}

HostTensor tensor(std::vector<std::int64_t> shape, const Values& values,
                  std::vector<std::int64_t> strides = {}) {
  HostTensor result(DType::f32, std::move(shape), std::move(strides));
  result.fill(values);
  return result;
}

TEST(Evaluate, MatmulOfEachTransposition) {
  // [1 2 3; 4 5 6] x [1 0; 2 1; 0 3] = [5 11; 14 23]
  HostTensor a = tensor({2, 3}, {1, 2, 3, 4, 5, 6}), at = tensor({3, 2}, {1, 4, 2, 5, 3, 6});
  HostTensor b = tensor({3, 2}, {1, 0, 2, 1, 0, 3}), bt = tensor({2, 3}, {1, 2, 0, 0, 1, 3});
  const Values expected{5, 11, 14, 23};
  EXPECT_EQ(evaluate_one("graph g(a: f32[M, K], b: f32[K, N]) {\n y = matmul a, b\n return y\n}",
                         {a.bind("a"), b.bind("b")}),
            expected);
  EXPECT_EQ(evaluate_one("graph g(a: f32[M, K], b: f32[N, K]) {\n y = matmul a, b^T\n return y\n}",
                         {a.bind("a"), bt.bind("b")}),
            expected);
  EXPECT_EQ(evaluate_one("graph g(a: f32[K, M], b: f32[K, N]) {\n y = matmul a^T, b\n return y\n}",
                         {at.bind("a"), b.bind("b")}),
            expected);
  EXPECT_EQ(
      evaluate_one("graph g(a: f32[K, M], b: f32[N, K]) {\n y = matmul a^T, b^T\n return y\n}",
                   {at.bind("a"), bt.bind("b")}),
      expected);
}

TEST(Evaluate, BatchesBroadcast) {
  HostTensor a = tensor({2, 1, 2}, {1, 2, 3, 4}), b = tensor({2, 1}, {1, 10});
  EXPECT_EQ(evaluate_one("graph g(a: f32[B, M, K], b: f32[K, N]) {\n y = matmul a, b\n return y\n}",
                         {a.bind("a"), b.bind("b")}),
            (Values{21, 43}));
  HostTensor c = tensor({2, 2, 1}, {1, 0, 0, 1});
  EXPECT_EQ(
      evaluate_one("graph g(a: f32[B, M, K], b: f32[B, K, N]) {\n y = matmul a, b\n return y\n}",
                   {a.bind("a"), c.bind("b")}),
      (Values{1, 4}));
}

TEST(Evaluate, ReadsPaddedAndTransposedMemory) {
  HostTensor a = tensor({2, 2}, {1, 2, 3, 4}, {5, 1});
  EXPECT_EQ(evaluate_one("graph g(a: f32[M, N]) {\n y = mul a, 2\n return y\n}", {a.bind("a")}),
            (Values{2, 4, 6, 8}));
  HostTensor t = tensor({2, 2}, {1, 2, 3, 4}, {1, 2});
  EXPECT_EQ(evaluate_one("graph g(a: f32[M, N] strides [1, L]) {\n y = mul a, 2\n return y\n}",
                         {t.bind("a")}),
            (Values{2, 4, 6, 8}));
}

TEST(Evaluate, ViewsOfInputsAndOfResults) {
  HostTensor a = tensor({2, 3}, {1, 2, 3, 4, 5, 6});
  EXPECT_EQ(evaluate_one("graph g(a: f32[M, N]) {\n t = transpose a\n y = add t, 1\n return y\n}",
                         {a.bind("a")}),
            (Values{2, 5, 3, 6, 4, 7}));
  EXPECT_EQ(evaluate_one("graph g(a: f32[M, N]) {\n s = add a, 1\n y = transpose s\n return y\n}",
                         {a.bind("a")}),
            (Values{2, 5, 3, 6, 4, 7}));
  EXPECT_EQ(evaluate_one("graph g(a: f32[2, 3]) {\n s = add a, 1\n t = transpose s\n"
                         " y = reshape t [2, 3]\n return y\n}",
                         {a.bind("a")}),
            (Values{2, 5, 3, 6, 4, 7}));
  EXPECT_EQ(evaluate_one("graph g(a: f32[2, 3]) {\n s = add a, 1\n"
                         " y = slice s [1:2, 0:3:2]\n return y\n}",
                         {a.bind("a")}),
            (Values{5, 7}));
  EXPECT_EQ(evaluate_one("graph g(a: f32[2, 3]) {\n s = slice a [0:2, 1:2]\n t = add s, 1\n"
                         " y = broadcast t [2, 2, 2]\n return y\n}",
                         {a.bind("a")}),
            (Values{3, 3, 6, 6, 3, 3, 6, 6}));
}

TEST(Evaluate, ReshapeOfTransposedInputIsCopied) {
  HostTensor a = tensor({2, 3}, {1, 2, 3, 4, 5, 6});
  EXPECT_EQ(evaluate_one("graph g(a: f32[2, 3]) {\n t = transpose a\n r = reshape t [6]\n"
                         " y = neg r\n return y\n}",
                         {a.bind("a")}),
            (Values{-1, -4, -2, -5, -3, -6}));
}

TEST(Evaluate, ReductionsOfEachKind) {
  HostTensor a = tensor({2, 3}, {1, -2, 3, 4, 5, -6});
  const auto reduce = [&](const std::string& op) {
    return evaluate_one("graph g(a: f32[M, N]) {\n y = " + op + " a\n return y\n}", {a.bind("a")});
  };
  EXPECT_EQ(reduce("row_sum"), (Values{2, 3}));
  EXPECT_EQ(reduce("row_max"), (Values{3, 5}));
  EXPECT_EQ(reduce("col_sum"), (Values{5, 3, -3}));
  EXPECT_EQ(reduce("col_max"), (Values{4, 5, 3}));
}

TEST(Evaluate, BroadcastsRowsColumnsAndScalars) {
  HostTensor a = tensor({2, 2}, {1, 2, 3, 4});
  HostTensor row = tensor({2}, {10, 20}), col = tensor({2, 1}, {100, 200}), one = tensor({}, {0.5});
  EXPECT_EQ(evaluate_one("graph g(a: f32[M, N], r: f32[N], c: f32[M, 1], o: f32[], s: scalar) {\n"
                         " t = add a, r\n u = add t, c\n v = add u, o\n y = mul v, s\n return y\n}",
                         {a.bind("a"), row.bind("r"), col.bind("c"), one.bind("o"), {"s", 2.0}}),
            (Values{223, 245, 427, 449}));
}

TEST(Evaluate, CastsRoundAndIntermediateValuesDoNot) {
  HostTensor a(DType::bf16, {1});
  a.fill({256});
  // 257 is no bf16 number: it rounds to 256.
  EXPECT_EQ(evaluate_one("graph g(a: bf16[N]) {\n t = add a, 1\n y = sub t, 256\n return y\n}",
                         {a.bind("a")}),
            (Values{1}));
  EXPECT_EQ(evaluate_one("graph g(a: bf16[N]) {\n t = add a, 1\n c = cast t -> bf16\n"
                         " y = sub c, 256\n return y\n}",
                         {a.bind("a")}),
            (Values{0}));
}

TEST(Evaluate, EmptySizes) {
  HostTensor a(DType::f32, {2, 0}), b(DType::f32, {0, 3}), none(DType::f32, {0, 3});
  EXPECT_EQ(evaluate_one("graph g(a: f32[M, K], b: f32[K, N]) {\n y = matmul a, b\n return y\n}",
                         {a.bind("a"), b.bind("b")}),
            (Values{0, 0, 0, 0, 0, 0}));
  EXPECT_TRUE(
      evaluate_one("graph g(a: f32[M, N]) {\n y = relu a\n return y\n}", {none.bind("a")}).empty());
}

}  // namespace
}  // namespace epifuse::reference
