// bf16 products of odd depths, some of which oneDNN 2.6 gets wrong: right, and never given to it
// unpadded.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>

#include "backends/cpu/matmul.h"
#include "epifuse/error.h"
#include "tests/unit/backends/cpu_harness.h"

namespace epifuse::cpu {
namespace {

using Shape = std::vector<std::int64_t>;

MatmulType product_type(DType dtype, std::int64_t k) {
  return {{dtype, {33, k}, {k, 1}}, {dtype, {k, 5}, {5, 1}}, {DType::f32, {33, 5}, {5, 1}}, 1};
}

TEST(CpuPaddedK, NoPrimitiveIsMadeOfAnUnpaddedK) {
  MatmulCache matmuls;
  for (const std::int64_t k : {1, 7, 31, 63, 95, 2047, 4095}) {
    EXPECT_THROW(matmuls.get(product_type(DType::bf16, k)), InternalError) << k;
    EXPECT_NE(matmuls.get(product_type(DType::f32, k)), nullptr) << k;
    EXPECT_EQ(padded_k(DType::bf16, k), k + 1);
    EXPECT_EQ(padded_k(DType::f32, k), k);
    if (!matmuls.is_native(DType::bf16)) continue;
    EXPECT_NE(matmuls.get(product_type(DType::bf16, k + 1)), nullptr) << k;
    EXPECT_NE(matmuls.get(product_type(DType::bf16, k - 1)), nullptr) << k;
  }
}

// Batches that oneDNN gets wrong with AMX: never one call, and right.
TEST(CpuBatches, OfAlmost64ColumnsAreMultipliedOneByOne) {
  MatmulCache matmuls;
  const auto batched = [](std::int64_t n) {
    return MatmulType{{DType::bf16, {2, 9, 32}, {288, 32, 1}},
                      {DType::bf16, {2, 32, n}, {32 * n, n, 1}},
                      {DType::f32, {2, 9, n}, {9 * n, n, 1}},
                      1};
  };
  for (const std::int64_t n : {49, 57, 63}) EXPECT_THROW(matmuls.get(batched(n)), InternalError);
  if (matmuls.is_native(DType::bf16)) {
    for (const std::int64_t n : {48, 64}) EXPECT_NE(matmuls.get(batched(n)), nullptr);
  }
  for (const bool tb : {false, true}) {
    const CpuProgram program("graph g(a: bf16[B, M, K], b: bf16[B, " +
                             std::string(tb ? "N, K" : "K, N") + "]) {\n  h = matmul a, b" +
                             (tb ? "^T" : "") + "\n  return h\n}");
    for (const std::int64_t n : {49, 54, 57, 63}) {
      for (const std::int64_t k : {32, 64, 160}) {
        HostTensor a = random_tensor(DType::bf16, {3, 9, k}, 1);
        HostTensor b = random_tensor(DType::bf16, tb ? Shape{3, n, k} : Shape{3, k, n}, 2);
        HostTensor h(DType::bf16, {3, 9, n});
        program.run_and_verify({a.bind("a"), b.bind("b"), h.bind("h")});
      }
    }
  }
}

struct Layout {
  bool ta, tb;
  std::int64_t gap;  // elements between rows
};

HostTensor matrix(Shape shape, std::int64_t gap, std::uint64_t seed) {
  const std::int64_t stride = shape.back() + gap;
  return random_tensor(DType::bf16, std::move(shape), seed, {stride, 1});
}

std::string product(const Layout& layout) {
  return std::string("graph g(a: bf16[") + (layout.ta ? "K, M" : "M, K") + "], b: bf16[" +
         (layout.tb ? "N, K" : "K, N") + "]) {\n  h = matmul a" + (layout.ta ? "^T" : "") + ", b" +
         (layout.tb ? "^T" : "");
}

void check_product(const CpuProgram& program, const Layout& layout, const std::string& result,
                   std::int64_t m, std::int64_t n, std::int64_t k) {
  SCOPED_TRACE(::testing::Message()
               << result << ' ' << m << 'x' << n << 'x' << k << ", a^T " << layout.ta << ", b^T "
               << layout.tb << ", gap " << layout.gap);
  HostTensor a = matrix(layout.ta ? Shape{k, m} : Shape{m, k}, layout.gap, 1);
  HostTensor b = matrix(layout.tb ? Shape{n, k} : Shape{k, n}, layout.gap, 2);
  HostTensor y(DType::bf16, {m, n});
  program.run_and_verify({a.bind("a"), b.bind("b"), y.bind(result)});
}

constexpr Layout kLayouts[] = {{false, false, 0}, {false, true, 0},  {true, false, 0},
                               {true, true, 0},   {false, false, 3}, {false, true, 3}};

// The element behind an odd k must not be read: oneDNN multiplied the last one by zero twice, which
// made NaN of infinity, where rows are apart.
TEST(CpuPaddedK, InfinityTimesTheZeroBehindKIsNotAdded) {
  for (const Layout& layout : kLayouts) {
    const CpuProgram bare(product(layout) + "\n  return h\n}");
    for (const std::int64_t k : {1, 3, 7, 33}) {
      SCOPED_TRACE(::testing::Message() << "k " << k << ", a^T " << layout.ta << ", b^T "
                                        << layout.tb << ", gap " << layout.gap);
      HostTensor a = matrix(layout.ta ? Shape{k, 64} : Shape{64, k}, layout.gap, 1);
      HostTensor b = matrix(layout.tb ? Shape{5, k} : Shape{k, 5}, layout.gap, 2);
      for (std::int64_t i = 0; i < 64; i += 3) {
        const std::int64_t last = k - 1, row = k + layout.gap;
        a.set(layout.ta ? last * (64 + layout.gap) + i : i * row + last,
              std::numeric_limits<double>::infinity());
      }
      HostTensor y(DType::bf16, {64, 5});
      bare.run_and_verify({a.bind("a"), b.bind("b"), y.bind("h")});
    }
  }
}

// One call of oneDNN would do for the bare ones.
TEST(CpuPaddedK, BareAndFusedProductsOfEveryLayout) {
  for (const Layout& layout : kLayouts) {
    const CpuProgram bare(product(layout) + "\n  return h\n}");
    const CpuProgram fused(product(layout) + "\n  y = relu h\n  return y\n}");
    for (const std::int64_t k : {31, 63, 95}) {
      for (const std::int64_t m : {1, 2, 5, 16, 33, 49, 64, 65, 97, 200, 400}) {
        for (const std::int64_t n : {1, 5, 79}) {
          check_product(bare, layout, "h", m, n, k);
          check_product(fused, layout, "y", m, n, k);
        }
      }
    }
  }
}

// Products that the machine could not run; few rows, where a goes into blocks, to many,
// where b does.
TEST(CpuPaddedK, AnyNumberOfRowsAndDeepProducts) {
  for (const Layout& layout : {Layout{false, false, 0}, Layout{false, true, 0}}) {
    const CpuProgram fused(product(layout) + "\n  y = relu h\n  return y\n}");
    for (std::int64_t m = 1; m <= 97; ++m) check_product(fused, layout, "y", m, 5, 63);
    check_product(fused, layout, "y", 94, 141, 2047);
    check_product(fused, layout, "y", 47, 79, 4095);
    check_product(fused, layout, "y", 500, 200, 1407);
  }
}

TEST(CpuPaddedK, Batches) {
  for (const char* weights : {"b: bf16[B, K, N]", "b: bf16[B, N, K]", "b: bf16[K, N]"}) {
    const std::string w(weights);
    const bool is_shared = w == "b: bf16[K, N]", tb = w == "b: bf16[B, N, K]";
    for (const char* tail : {"return h\n}", "h2 = relu h\n  return h2\n}"}) {
      const CpuProgram program("graph g(a: bf16[B, M, K], " + w + ") {\n  h = matmul a, b" +
                               (tb ? "^T" : "") + "\n  " + tail);
      const char* result = tail[0] == 'r' ? "h" : "h2";
      for (const std::int64_t k : {31, 63, 95}) {
        const Shape shape = is_shared ? Shape{k, 37} : tb ? Shape{3, 37, k} : Shape{3, k, 37};
        HostTensor a = random_tensor(DType::bf16, {3, 19, k}, 1);
        HostTensor b = random_tensor(DType::bf16, shape, 2), y(DType::bf16, {3, 19, 37});
        program.run_and_verify({a.bind("a"), b.bind("b"), y.bind(result)});
      }
    }
  }
}

TEST(CpuPaddedK, Groups) {
  for (const bool tb : {false, true}) {
    const CpuProgram program(std::string("graph g(x: bf16[T, K], w: bf16[G, ") +
                             (tb ? "N, K" : "K, N") + "], e: i32[G]) {\n  h = grouped_matmul x, w" +
                             (tb ? "^T" : "") + ", e\n  y = relu h\n  return y\n}");
    for (const std::int64_t k : {31, 63, 95}) {
      HostTensor x = random_tensor(DType::bf16, {110, k}, 1), y(DType::bf16, {110, 37});
      HostTensor w = random_tensor(DType::bf16, tb ? Shape{4, 37, k} : Shape{4, k, 37}, 2);
      HostTensor e(DType::i32, {4});
      e.fill({1, 1, 13, 110});
      program.run_and_verify({x.bind("x"), w.bind("w"), e.bind("e"), y.bind("y")});
    }
  }
}

TEST(CpuPaddedK, GatedProducts) {
  const CpuProgram program(
      "graph g(x: bf16[M, K], v: bf16[N, K], w: bf16[N, K]) {\n  g = matmul x, v^T\n"
      "  u = matmul x, w^T\n  s = silu g\n  y = mul s, u\n  return y\n}");
  for (const std::int64_t k : {31, 63, 95}) {
    for (const std::int64_t m : {1, 17, 130, 450}) {
      HostTensor x = random_tensor(DType::bf16, {m, k}, 1), y(DType::bf16, {m, 40});
      HostTensor v = random_tensor(DType::bf16, {40, k}, 2);
      HostTensor w = random_tensor(DType::bf16, {40, k}, 3);
      program.run_and_verify({x.bind("x"), v.bind("v"), w.bind("w"), y.bind("y")});
    }
  }
}

HostTensor filled(Shape shape, double value) {
  HostTensor tensor(DType::bf16, std::move(shape));
  return tensor.fill(std::vector<double>(static_cast<std::size_t>(tensor.size()), value));
}

// Inf * 0 is NaN: the zeros of a pad must meet zeros, not what the scratch memory held before. The
// first run, of a k that needs no pad, leaves infinities there.
TEST(CpuPaddedK, PadsAreZeroOnBothSides) {
  const double inf = std::numeric_limits<double>::infinity();
  for (const Layout& layout : kLayouts) {
    const CpuProgram program(product(layout) + "\n  y = relu h\n  return y\n}");
    const std::int64_t n = 21;
    for (const std::int64_t m : {2, 40, 500}) {
      for (const std::int64_t k : {64, 63}) {
        HostTensor a = filled(layout.ta ? Shape{k, m} : Shape{m, k}, inf);
        HostTensor b = filled(layout.tb ? Shape{n, k} : Shape{k, n}, k == 64 ? inf : 1.0);
        HostTensor y(DType::bf16, {m, n});
        program.run({a.bind("a"), b.bind("b"), y.bind("y")});
        for (std::int64_t at = 0; at < y.size(); ++at) ASSERT_EQ(y.get(at), inf) << m << ' ' << at;
      }
    }
  }
}

}  // namespace
}  // namespace epifuse::cpu
