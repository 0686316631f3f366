// Groups of rows on the CPU, against plain loops: every row by its own matrix, no other row
// touched.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <string>

#include "epifuse/error.h"
#include "tests/unit/backends/cpu_harness.h"

namespace epifuse::cpu {
namespace {

using Integers = std::vector<std::int64_t>;

HostTensor integers(const Integers& values, DType dtype = DType::i32) {
  HostTensor tensor(dtype, {std::ssize(values)});
  return tensor.fill({values.begin(), values.end()});
}

Integers counts_to_ends(Integers counts) {
  for (std::size_t i = 1; i < counts.size(); ++i) counts[i] += counts[i - 1];
  return counts;
}

// The sum over k of x[row_of_x, k] * w[group, column, k].
double product(const HostTensor& x, std::int64_t row_of_x, const HostTensor& w, std::int64_t group,
               std::int64_t column) {
  const std::int64_t k = x.shape().back(), n = w.shape()[1];
  double sum = 0;
  for (std::int64_t i = 0; i < k; ++i) {
    sum += x.get(row_of_x * k + i) * w.get((group * n + column) * k + i);
  }
  return sum;
}

// Every element of rows of groups is as `expected` says, all others are as they were made.
void expect_rows(const HostTensor& y, const Integers& ends,
                 const std::function<double(std::int64_t, std::int64_t, std::int64_t)>& expected) {
  const std::int64_t n = y.shape().back();
  std::int64_t row = 0;
  for (std::size_t g = 0; g < ends.size(); ++g) {
    for (; row < ends[g]; ++row) {
      for (std::int64_t column = 0; column < n; ++column) {
        const double right = expected(row, static_cast<std::int64_t>(g), column);
        EXPECT_NEAR(y.get(row * n + column), right, 1e-4 * (1 + std::abs(right)))
            << "row " << row << " of group " << g << ", column " << column;
      }
    }
  }
  for (; row < y.shape()[0]; ++row) {
    for (std::int64_t column = 0; column < n; ++column) {
      EXPECT_TRUE(std::isnan(y.get(row * n + column))) << "row " << row << " is of no group";
    }
  }
}

TEST(CpuGrouped, MultipliesEachRowByTheMatrixOfItsGroup) {
  const CpuProgram program(
      "graph g(x: f32[T, K], w: f32[G, N, K], ends: i32[G]) {\n"
      "  h = grouped_matmul x, w^T, ends\n  return h\n}\n");
  for (const Integers& counts :
       {Integers{1, 0, 40, 37, 0, 15, 129, 25}, Integers{0, 0, 0}, Integers{5}, Integers{300}}) {
    const Integers ends = counts_to_ends(counts);
    const std::int64_t t = ends.back() + 7, n = 40, k = 24;
    HostTensor x = random_tensor(DType::f32, {t, k}, 1);
    HostTensor w = random_tensor(DType::f32, {std::ssize(ends), n, k}, 2);
    HostTensor e = integers(ends), h(DType::f32, {t, n});
    program.run({x.bind("x"), w.bind("w"), e.bind("ends"), h.bind("h")});
    expect_rows(h, ends, [&](std::int64_t row, std::int64_t g, std::int64_t column) {
      return product(x, row, w, g, column);
    });
  }
}

TEST(CpuGrouped, TakesHundredsOfTinyGroups) {
  const CpuProgram program(
      "graph g(x: f32[T, K], w: f32[G, K, N], ends: i64[G]) {\n"
      "  h = grouped_matmul x, w, ends\n  return h\n}\n");
  Integers counts;
  for (std::int64_t g = 0; g < 512; ++g) counts.push_back(g % 5);
  const Integers ends = counts_to_ends(counts);
  const std::int64_t t = ends.back(), n = 9, k = 5;
  HostTensor x = random_tensor(DType::f32, {t, k}, 1), e = integers(ends, DType::i64);
  HostTensor w = random_tensor(DType::f32, {512, k, n}, 2), h(DType::f32, {t, n});
  program.run({x.bind("x"), w.bind("w"), e.bind("ends"), h.bind("h")});
  expect_rows(h, ends, [&](std::int64_t row, std::int64_t g, std::int64_t column) {
    double sum = 0;
    for (std::int64_t i = 0; i < k; ++i)
      sum += x.get(row * k + i) * w.get((g * k + i) * n + column);
    return sum;
  });
}

TEST(CpuGrouped, GathersRowsAddsTheGroupsBiasAndPutsRowsBack) {
  const CpuProgram program(
      "graph g(x: f32[S, K], rows: i32[T], w: f32[G, N, K], b: f32[G, N], p: f32[T], ends: i32[G]) "
      "{\n"
      "  xt = take_rows x, rows\n  h = grouped_matmul xt, w^T, ends\n"
      "  bt = repeat_rows b, ends [T, N]\n  a = add h, bt\n"
      "  pt = take_rows p, rows\n  pc = reshape pt [T, 1]\n  c = mul a, pc\n"
      "  y = put_rows c, rows [T, N]\n  return y\n}\n");
  ASSERT_EQ(program.plan().steps.size(), 1u);
  const Integers ends{3, 3, 20, 33}, rows = [] {
    Integers all;
    for (std::int64_t i = 0; i < 33; ++i) all.push_back(i * 7 % 33);
    return all;
  }();
  const std::int64_t t = 33, n = 17, k = 12;
  HostTensor x = random_tensor(DType::f32, {t, k}, 1), w = random_tensor(DType::f32, {4, n, k}, 2);
  HostTensor b = random_tensor(DType::f32, {4, n}, 3), p = random_tensor(DType::f32, {t}, 4);
  HostTensor e = integers(ends), r = integers(rows), y(DType::f32, {t, n}), in_order = y;
  program.run({x.bind("x"), r.bind("rows"), w.bind("w"), b.bind("b"), p.bind("p"), e.bind("ends"),
               y.bind("y")});
  for (std::int64_t row = 0; row < t; ++row) {
    const std::int64_t place = rows[static_cast<std::size_t>(row)];
    for (std::int64_t i = 0; i < n; ++i) in_order.set(row * n + i, y.get(place * n + i));
  }
  expect_rows(in_order, ends, [&](std::int64_t row, std::int64_t g, std::int64_t column) {
    const std::int64_t place = rows[static_cast<std::size_t>(row)];
    return (product(x, place, w, g, column) + b.get(g * n + column)) * p.get(place);
  });
}

TEST(CpuGrouped, ComputesTheFirstRowsOfPaddedGroups) {
  const CpuProgram program(
      "graph g(x: f32[G, M, K], w: f32[G, N, K], b: f32[G, 1, N], counts: i32[G]) {\n"
      "  h = grouped_matmul x, w^T, counts\n  y = add h, b\n  return y\n}\n");
  const Integers counts{2, 0, 9, 5};
  const std::int64_t m = 9, n = 17, k = 12;
  HostTensor x = random_tensor(DType::f32, {4, m, k}, 1);
  HostTensor w = random_tensor(DType::f32, {4, n, k}, 2);
  HostTensor b = random_tensor(DType::f32, {4, 1, n}, 3), c = integers(counts);
  HostTensor y(DType::f32, {4, m, n});
  program.run({x.bind("x"), w.bind("w"), b.bind("b"), c.bind("counts"), y.bind("y")});
  for (std::int64_t g = 0; g < 4; ++g) {
    for (std::int64_t row = 0; row < m; ++row) {
      for (std::int64_t column = 0; column < n; ++column) {
        const double got = y.get((g * m + row) * n + column);
        if (row >= counts[static_cast<std::size_t>(g)]) {
          EXPECT_TRUE(std::isnan(got)) << "row " << row << " of group " << g << " is padding";
          continue;
        }
        const double right = product(x, g * m + row, w, g, column) + b.get(g * n + column);
        EXPECT_NEAR(got, right, 1e-4 * (1 + std::abs(right)));
      }
    }
  }
}

// The gradient of grouped weights. Rows of no group are NaN here.
TEST(CpuGrouped, SumsOverTheRowsOfEachGroup) {
  const CpuProgram program(
      "graph g(x: f32[T, M], dy: f32[T, N], ends: i64[G], d: f32[G, M, N]) {\n"
      "  p = k_grouped_matmul x^T, dy, ends\n  q = mul p, 0.5\n  s = add d, q\n  return s\n}\n");
  ASSERT_EQ(program.plan().steps.size(), 1u);
  const std::int64_t m = 37, n = 41;
  for (const Integers& counts : {Integers{1, 0, 40, 37, 0, 64, 129}, Integers{0, 0}, Integers{5}}) {
    const Integers ends = counts_to_ends(counts);
    const std::int64_t t = ends.back() + 3, num_groups = std::ssize(ends);
    HostTensor x = random_tensor(DType::f32, {t, m}, 1), dy = random_tensor(DType::f32, {t, n}, 2);
    for (std::int64_t i = ends.back() * m; i < t * m; ++i) x.set(i, std::nan(""));
    HostTensor e = integers(ends, DType::i64), s(DType::f32, {num_groups, m, n});
    HostTensor d = random_tensor(DType::f32, {num_groups, m, n}, 3);
    program.run({x.bind("x"), dy.bind("dy"), e.bind("ends"), d.bind("d"), s.bind("s")});
    for (std::int64_t i = 0; i < num_groups * m * n; ++i) {
      const std::int64_t g = i / (m * n), row = i / n % m, column = i % n;
      double sum = 0;
      const std::int64_t first = g == 0 ? 0 : ends[static_cast<std::size_t>(g - 1)];
      for (std::int64_t k = first; k < ends[static_cast<std::size_t>(g)]; ++k) {
        sum += x.get(k * m + row) * dy.get(k * n + column);
      }
      EXPECT_NEAR(s.get(i), d.get(i) + sum / 2, 1e-4 * (1 + std::abs(sum)))
          << "group " << g << ": " << row << ", " << column;
    }
  }
}

// A gate, in each layout of its weights, is one step; the values before it are another result.
TEST(CpuGrouped, ComputesGates) {
  const std::string inputs =
      "graph g(x: bf16[T, K], w: bf16[G, 2*N, K], v: bf16[G, N, K], u: bf16[G, N, K], ends: i32[G]";
  const std::string end = "  s = silu a\n  y = mul s, b\n  return ";
  const std::string halves = "  h = grouped_matmul x, w^T, ends\n";
  for (const std::string& body :
       {halves + "  a = slice h [:, :N]\n  b = slice h [:, N:]\n" + end + "y, h\n}\n",
        halves + "  a = slice h [:, ::2]\n  b = slice h [:, 1::2]\n" + end + "y, h\n}\n",
        "  a = grouped_matmul x, v^T, ends\n  b = grouped_matmul x, u^T, ends\n" + end +
            "y, a as h\n}\n"}) {
    const CpuProgram program(inputs + ") {\n" + body);
    EXPECT_EQ(program.plan().steps.size(), 1u) << body;
    const std::int64_t t = 50, n = 24, k = 40;
    HostTensor x = random_tensor(DType::bf16, {t, k}, 1);
    HostTensor w = random_tensor(DType::bf16, {3, 2 * n, k}, 2), e = integers({8, 40, 50});
    HostTensor v = random_tensor(DType::bf16, {3, n, k}, 3);
    HostTensor u = random_tensor(DType::bf16, {3, n, k}, 4), y(DType::bf16, {t, n});
    HostTensor h(DType::bf16, {t, body.find(" w^T") == std::string::npos ? n : 2 * n});
    program.run_and_verify({x.bind("x"), w.bind("w"), v.bind("v"), u.bind("u"), e.bind("ends"),
                            y.bind("y"), h.bind("h")});
  }
}

TEST(CpuGrouped, SaysWhichIntegerIsWrong) {
  const CpuProgram product(
      "graph g(x: f32[T, 8], w: f32[G, 8, 8], ends: i32[G]) {\n"
      "  h = grouped_matmul x, w, ends\n  return h\n}\n");
  const CpuProgram taken(
      "graph g(x: f32[R, 8], rows: i64[T]) {\n"
      "  t = take_rows x, rows\n  y = neg t\n  return y\n}\n");
  const CpuProgram put(
      "graph g(x: f32[T, 8], rows: i64[T]) {\n  y = put_rows x, rows [T, 8]\n  return y\n}\n");
  HostTensor x = random_tensor(DType::f32, {4, 8}, 1), w = random_tensor(DType::f32, {2, 8, 8}, 2);
  HostTensor y(DType::f32, {4, 8});
  const auto message = [](const std::function<void()>& run) -> std::string {
    try {
      run();
    } catch (const ArgumentError& error) {
      return error.what();
    }
    return "no error";
  };
  for (const Integers& ends : {Integers{3, 2}, Integers{2, 5}, Integers{-1, 4}}) {
    HostTensor e = integers(ends);
    EXPECT_NE(message([&] {
                product.run({x.bind("x"), w.bind("w"), e.bind("ends"), y.bind("h")});
              }).find("grouped_matmul 'h' expects ends that never fall and are at most 4, got "),
              std::string::npos);
  }
  HostTensor beyond = integers({0, 1, 4, 2}, DType::i64),
             twice = integers({0, 1, 2, 1}, DType::i64);
  EXPECT_EQ(message([&] {
              taken.run({x.bind("x"), beyond.bind("rows"), y.bind("y")});
            }),
            "take_rows 't' expects rows from -4 to 3, got 4 at place 2 of 'rows'");
  EXPECT_EQ(message([&] {
              put.run({x.bind("x"), twice.bind("rows"), y.bind("y")});
            }),
            "put_rows 'y' expects distinct rows, got 1 at place 3 of 'rows'");
}

// One program, other groups each time: nothing of a call before is remembered.
TEST(CpuGrouped, TakesOtherGroupsEachCall) {
  const CpuProgram program(
      "graph g(x: f32[T, K], w: f32[G, N, K], ends: i32[G]) {\n"
      "  h = grouped_matmul x, w^T, ends\n  y = relu h\n  return y\n}\n");
  const std::int64_t t = 40, n = 16, k = 8;
  HostTensor x = random_tensor(DType::f32, {t, k}, 1), w = random_tensor(DType::f32, {3, n, k}, 2);
  for (const Integers& ends : {Integers{40, 40, 40}, Integers{0, 0, 40}, Integers{13, 14, 30}}) {
    HostTensor e = integers(ends), y(DType::f32, {t, n});
    program.run({x.bind("x"), w.bind("w"), e.bind("ends"), y.bind("y")});
    expect_rows(y, ends, [&](std::int64_t row, std::int64_t g, std::int64_t column) {
      return std::max(0.0, product(x, row, w, g, column));
    });
  }
}

}  // namespace
}  // namespace epifuse::cpu
