// Which full operands and results a Hopper GEMM moves without TMA, and how much of them at once.
#include <gtest/gtest.h>

#include <cstdint>

#include "codegen/sm90/dense.h"
#include "epifuse/tensor.h"
#include "ir/text.h"

namespace epifuse::codegen::sm90 {
namespace {

constexpr const char* kResidual =
    "graph g(x: bf16[M, K], w: bf16[N, K], r: bf16[M, N]) {\n  h = matmul x, w^T\n"
    "  y = add h, r\n  return y\n}\n";
constexpr const char* kTwoResults =
    "graph g(x: bf16[M, K], w: bf16[N, K]) {\n  h = matmul x, w^T -> f32\n"
    "  y = tanh h\n  z = cast y -> bf16\n  return y, z\n}\n";
constexpr const char* kBatch =
    "graph g(x: bf16[B, M, K], w: bf16[B, N, K]) {\n  h = matmul x, w^T\n"
    "  y = tanh h\n  return y\n}\n";
constexpr const char* kPut =
    "graph g(x: bf16[M, K], w: bf16[N, K], i: i32[M]) {\n  h = matmul x, w^T\n"
    "  t = tanh h\n  y = put_rows t, i [4, N]\n  return y\n}\n";

// How all of M x N lie in memory, in elements: how far off 256 bytes, what is between rows, between
// columns and between the products of a batch.
struct Memory {
  std::int64_t m, n;
  std::int64_t offset = 0, row_gap = 0, column_stride = 1, batch_gap = 0;
};

Variant variant_of(const char* graph, const Memory& memory) {
  const plan::Plan plan = plan::make_plan(ir::parse(graph), {});
  Bound bound;
  bound.sizes = {{"M", memory.m}, {"N", memory.n}, {"K", 128}, {"B", 3}};
  bound.tensors.resize(plan.graph.nodes.size());
  bound.scalars.resize(bound.tensors.size());
  for (std::size_t id = 0; id < bound.tensors.size(); ++id) {
    const ir::TensorType& type = plan.graph.nodes[id].type;
    const std::vector<std::int64_t> shape = ir::eval(type.shape, bound.sizes);
    ir::Layout layout{0, shape, TensorView::dense_strides(shape)};
    if (shape.size() > 1 && shape.back() == memory.n) {
      layout.offset = memory.offset;
      const std::size_t rank = shape.size();
      layout.strides[rank - 1] = memory.column_stride;
      layout.strides[rank - 2] = memory.n * memory.column_stride + memory.row_gap;
      if (rank > 2) {
        layout.strides[0] = shape[rank - 2] * layout.strides[rank - 2] + memory.batch_gap;
      }
    }
    char* data = reinterpret_cast<char*>(std::uintptr_t{1} << 20);  // never read
    bound.tensors[id] = {data + (id << 24), layout};
  }
  return variant(plan, std::get<plan::FusedGemm>(plan.steps.front()), bound);
}

// `at_once`: 0 where results are written one by one.
void expect_residual(const Memory& memory, int at_once) {
  SCOPED_TRACE(::testing::Message() << memory.m << " x " << memory.n << ", offset " << memory.offset
                                    << ", gap " << memory.row_gap);
  const Variant got = variant_of(kResidual, memory);
  EXPECT_EQ(got.non_tma_loads, 1U);
  EXPECT_EQ(got.non_tma_stores, 1U);
  EXPECT_EQ(got.row_loads, at_once > 0 ? 1U : 0U);
  EXPECT_EQ(got.paired_loads, at_once > 1 ? 1U : 0U);
  EXPECT_EQ(got.copied_stores, at_once > 0 ? 1U : 0U);
  EXPECT_EQ(got.copied_at_once, std::max(at_once, 1));
}

TEST(Sm90Variant, MovesAsManyElementsAtOnceAsRowsAreMultiplesOf) {
  expect_residual({300, 1004}, 4);
  expect_residual({300, 1002}, 2);
  expect_residual({300, 1001}, 1);
  expect_residual({300, 1001, 0, 3}, 1);  // of which the last unit of a row would be cut
  expect_residual({300, 1000, 0, 4}, 4);
  expect_residual({300, 1000, 0, 1}, 1);
  expect_residual({300, 1000, 4}, 4);
  expect_residual({300, 1000, 2}, 2);
  expect_residual({300, 1000, 1}, 1);
  expect_residual({300, 1004, 2}, 2);
  EXPECT_EQ(variant_of(kResidual, {300, 1000}), Variant{});
}

// TMA reads it, but a box that ends within 16 bytes writes beside what another writes there.
void expect_copied_only(const Memory& memory, int at_once) {
  const Variant got = variant_of(kResidual, memory);
  EXPECT_EQ(got.non_tma_loads, 0U);
  EXPECT_EQ(got.copied_stores, 1U);
  EXPECT_EQ(got.copied_at_once, at_once);
}

TEST(Sm90Variant, RowsThatEndWithinSixteenBytesAreNotWrittenByTma) {
  expect_copied_only({300, 1001, 0, 7}, 1);
  expect_copied_only({300, 1004, 0, 4}, 4);
  EXPECT_EQ(variant_of(kResidual, {300, 1000, 0, 8}), Variant{});
}

TEST(Sm90Variant, RowsThatAreNotThereHaveNoStride) {
  expect_residual({1, 1000, 4, 1}, 4);
  expect_copied_only({1, 1001}, 1);
  EXPECT_EQ(variant_of(kResidual, {1, 1008}), Variant{});
}

TEST(Sm90Variant, ColumnsThatLieApartAreMovedOneByOne) {
  expect_residual({300, 1000, 0, 0, 2}, 0);
  EXPECT_EQ(print(variant_of(kResidual, {300, 1000, 0, 0, 2})),
            "full operands read element by element, results written element by element");
  EXPECT_EQ(print(variant_of(kResidual, {300, 1002})),
            "full operands read two elements at a time, results off 16-byte boundaries");
}

TEST(Sm90Variant, SeveralResultsAreMovedByWhatSuitsAll) {
  const Variant both = variant_of(kTwoResults, {300, 1002}),
                one = variant_of(kTwoResults, {300, 1004}),
                odd = variant_of(kTwoResults, {300, 1001});
  EXPECT_EQ(both.copied_stores, 3U);
  EXPECT_EQ(both.copied_at_once, 2);
  EXPECT_EQ(one.non_tma_stores, 2U) << "the rows of the f32 result are multiples of 16 bytes";
  EXPECT_EQ(one.copied_stores, 2U);
  EXPECT_EQ(one.copied_at_once, 4);
  EXPECT_EQ(odd.copied_stores, 3U);
  EXPECT_EQ(odd.copied_at_once, 1);
}

TEST(Sm90Variant, ProductsOfABatchCountToo) {
  for (const std::int64_t gap : {4, 2, 1}) {
    const Variant got = variant_of(kBatch, {300, 1000, 0, 0, 1, gap});
    EXPECT_EQ(got.copied_stores, 1U);
    EXPECT_EQ(got.copied_at_once, gap);
  }
}

TEST(Sm90Variant, RowsThatAnIndexPutsAreCopiedToo) {
  EXPECT_EQ(variant_of(kPut, {300, 1000}), Variant{});
  const Variant got = variant_of(kPut, {300, 1004});
  EXPECT_EQ(got.copied_stores, 1U);
  EXPECT_EQ(got.copied_at_once, 4);
  EXPECT_EQ(variant_of(kPut, {1, 1001}).copied_at_once, 1);
}

}  // namespace
}  // namespace epifuse::codegen::sm90
