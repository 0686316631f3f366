// The sizes of a product, with the rows of its operands as they lie in memory.
#include "codegen/gemm_sizes.h"

#include <gtest/gtest.h>

#include "ir/text.h"

namespace epifuse::codegen {
namespace {

using Longs = std::vector<std::int64_t>;

// x[m, k] and w[k, n] of these shapes and strides.
GemmSizes rows_of(const ir::Layout& x, const ir::Layout& w) {
  const plan::Plan plan = plan::make_plan(
      ir::parse("graph g(x: bf16[M, K], w: bf16[K, N]) {\n  h = matmul x, w\n  return h\n}\n"), {});
  const auto& gemm = std::get<plan::FusedGemm>(plan.steps.front()).gemm;
  Bound bound;
  bound.tensors.resize(plan.graph.nodes.size());
  bound[gemm.a.value].layout = x;
  bound[gemm.b.value].layout = w;
  return with_rows({1, 5, 7, 9}, gemm, bound);
}

TEST(GemmSizes, RowsAreAsFarApartAsTensorsSay) {
  const GemmSizes dense = rows_of({0, {5, 9}, {9, 1}}, {0, {9, 7}, {7, 1}});
  EXPECT_EQ(dense.row_bytes_a, 18);
  EXPECT_EQ(dense.row_bytes_b, 14);
  const GemmSizes strided = rows_of({64, {5, 9}, {1, 640}}, {0, {9, 7}, {100, 1}});
  EXPECT_EQ(strided.row_bytes_a, 1280) << "of K, one behind the other";
  EXPECT_EQ(strided.row_bytes_b, 200);
  EXPECT_EQ(rows_of({0, {1, 9}, {9, 1}}, {0, {9, 1}, {1, 1}}).row_bytes_a, 0) << "one row";
  EXPECT_EQ(strided.m, 5);
}

TEST(GemmSizes, AreExchangedWithTheOperands) {
  GemmSizes sizes{2, 5, 7, 9};
  sizes.row_bytes_a = 18, sizes.row_bytes_b = 14;
  const GemmSizes other = exchanged(sizes);
  EXPECT_EQ((Longs{other.batch, other.m, other.n, other.k}), (Longs{2, 7, 5, 9}));
  EXPECT_EQ((Longs{other.row_bytes_a, other.row_bytes_b}), (Longs{14, 18}));
}

}  // namespace
}  // namespace epifuse::codegen
