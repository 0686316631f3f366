// The forms of a matrix product that are handed to the vendor's GEMM, against a product by hand.
#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <tuple>

#include "backends/cuda/run/product.h"

namespace epifuse::cuda {
namespace {

using Longs = std::vector<std::int64_t>;

struct Operands {
  Longs a_shape, a_strides, b_shape, b_strides, d_shape, d_strides;
  bool transpose_a = false, transpose_b = false;
};

Product product(const Operands& x) {
  plan::FusedGemm step;
  codegen::Bound bound;
  bound.tensors = {{nullptr, {0, x.a_shape, x.a_strides}},
                   {nullptr, {0, x.b_shape, x.b_strides}},
                   {nullptr, {0, x.d_shape, x.d_strides}}};
  step.gemm.a = {0, x.transpose_a, DType::bf16};
  step.gemm.b = {1, x.transpose_b, DType::bf16};
  step.gemm.k = Dim(x.a_shape[x.a_shape.size() - (x.transpose_a ? 2 : 1)]);
  step.epilogue.stores.push_back({"d", 2, DType::bf16, plan::StoreKind::tile, 0});
  return product_of(step, bound);
}

// For each element of D, by offset: the pairs of offsets into A and B that it sums, in order.
using Terms = std::map<std::int64_t, std::vector<std::pair<std::int64_t, std::int64_t>>>;

Terms terms(const Product& p, bool swapped = false) {
  Terms result;
  const auto element = [&](std::int64_t a, std::int64_t b, std::int64_t d) {
    for (std::int64_t i = 0; i < p.m; ++i) {
      for (std::int64_t j = 0; j < p.n; ++j) {
        auto& sum = result[d + i * p.d.row_stride + j * p.d.col_stride];
        EXPECT_TRUE(sum.empty()) << "an element is written twice";
        for (std::int64_t k = 0; k < p.k; ++k) {
          const std::int64_t left = a + i * p.a.row_stride + k * p.a.col_stride;
          const std::int64_t right = b + k * p.b.row_stride + j * p.b.col_stride;
          sum.emplace_back(swapped ? right : left, swapped ? left : right);
        }
      }
    }
  };
  const std::function<void(std::size_t, std::int64_t, std::int64_t, std::int64_t)> walk =
      [&](std::size_t dim, std::int64_t a, std::int64_t b, std::int64_t d) {
        if (dim == p.batch.size()) return element(a, b, d);
        const BatchDim& step = p.batch[dim];
        for (std::int64_t i = 0; i < step.size; ++i) {
          walk(dim + 1, a + i * step.a_stride, b + i * step.b_stride, d + i * step.d_stride);
        }
      };
  walk(0, 0, 0, 0);
  return result;
}

struct Case {
  const char* name;
  Operands operands;
  std::size_t num_batch;  // after simplifying
  bool swapped = false;   // computed as D^T = B^T * A^T
};

const Case kCases[] = {
    {"plain", {{3, 4}, {4, 1}, {4, 5}, {5, 1}, {3, 5}, {5, 1}}, 0},
    {"K-major weights", {{3, 4}, {4, 1}, {5, 4}, {4, 1}, {3, 5}, {5, 1}, false, true}, 0},
    {"A transposed", {{4, 3}, {3, 1}, {4, 5}, {5, 1}, {3, 5}, {5, 1}, true}, 0},
    {"padded rows", {{3, 4}, {9, 1}, {4, 5}, {8, 1}, {3, 5}, {7, 1}}, 0},
    {"batch folds into rows",
     {{2, 3, 4}, {12, 4, 1}, {5, 4}, {4, 1}, {2, 3, 5}, {15, 5, 1}, false, true},
     0},
    {"padded batch stays", {{2, 3, 4}, {20, 4, 1}, {4, 5}, {5, 1}, {2, 3, 5}, {15, 5, 1}}, 1},
    {"batches of one row", {{6, 1, 4}, {40, 4, 1}, {4, 5}, {5, 1}, {6, 1, 5}, {10, 5, 1}}, 0},
    {"two batch dims become one",
     {{2, 3, 4, 4}, {48, 16, 4, 1}, {2, 3, 4, 5}, {60, 20, 5, 1}, {2, 3, 4, 5}, {60, 20, 5, 1}},
     1},
    {"B shared by heads",
     {{2, 3, 4, 4}, {48, 16, 4, 1}, {2, 1, 4, 5}, {20, 20, 5, 1}, {2, 3, 4, 5}, {60, 20, 5, 1}},
     1},
    {"batch dims that walk apart",
     {{2, 3, 4, 4}, {16, 32, 4, 1}, {2, 3, 4, 5}, {60, 20, 5, 1}, {2, 3, 4, 5}, {60, 20, 5, 1}},
     2},
    {"column-major result", {{3, 4}, {4, 1}, {4, 5}, {5, 1}, {3, 5}, {1, 3}}, 0, true},
    {"strided row of results", {{1, 4}, {4, 1}, {4, 5}, {5, 1}, {1, 5}, {10, 2}}, 0, true},
};

TEST(Product, SimplifyingKeepsEveryTerm) {
  for (const Case& each : kCases) {
    SCOPED_TRACE(each.name);
    const Product before = product(each.operands), after = simplify(before);
    EXPECT_EQ(terms(before), terms(after, each.swapped));
    EXPECT_EQ(after.batch.size(), each.num_batch);
    const auto d = leading(after.d, after.m, after.n);
    ASSERT_TRUE(d.has_value());
    EXPECT_TRUE(d->row_major);
    EXPECT_TRUE(leading(after.a, after.m, after.k).has_value());
    EXPECT_TRUE(leading(after.b, after.k, after.n).has_value());
  }
}

TEST(Leading, NamesTheStepAcrossTheContiguousDim) {
  const auto of = [](std::int64_t row_stride, std::int64_t col_stride, std::int64_t rows,
                     std::int64_t cols) {
    return leading({nullptr, DType::bf16, row_stride, col_stride}, rows, cols);
  };
  EXPECT_EQ(of(8, 1, 3, 5), (Leading{true, 8}));
  EXPECT_EQ(of(1, 8, 3, 5), (Leading{false, 8}));
  EXPECT_EQ(of(0, 1, 1, 5), (Leading{true, 5}));  // one row: any step will do
  EXPECT_EQ(of(8, 3, 4, 1), (Leading{true, 8}));
  EXPECT_EQ(of(0, 1, 3, 5), std::nullopt);   // the same row thrice
  EXPECT_EQ(of(4, 1, 3, 5), std::nullopt);   // rows that overlap
  EXPECT_EQ(of(16, 2, 3, 5), std::nullopt);  // no dim is contiguous
}

// [2, 5, 13] * [2, 13, 7], all of their rows off 16-byte boundaries.
Product off_boundaries(bool a_row_major, bool b_row_major) {
  Product p{5,
            7,
            13,
            {nullptr, DType::bf16, 13, 1},
            {nullptr, DType::bf16, 7, 1},
            {nullptr, DType::bf16, 7, 1}};
  if (!a_row_major) p.a = {nullptr, DType::bf16, 1, 5};
  if (!b_row_major) p.b = {nullptr, DType::bf16, 1, 13};
  p.batch = {{2, 65, 91, 35}};
  return p;
}

TEST(Padded, RowsBeginAtSixteenBytes) {
  for (const bool a_row_major : {false, true}) {
    for (const bool b_row_major : {false, true}) {
      const Product p = padded(off_boundaries(a_row_major, b_row_major));
      EXPECT_EQ(p.m, a_row_major ? 5 : 8);
      EXPECT_EQ(p.n, 8);
      EXPECT_EQ(p.k, a_row_major || !b_row_major ? 16 : 13) << "no row has the length of K";
      for (const auto& [matrix, rows, cols] :
           {std::tuple(p.a, p.m, p.k), std::tuple(p.b, p.k, p.n), std::tuple(p.d, p.m, p.n)}) {
        const auto found = leading(matrix, rows, cols);
        ASSERT_TRUE(found);
        EXPECT_EQ(found->stride % 8, 0);
        EXPECT_EQ(found->stride, found->row_major ? cols : rows) << "dense";
      }
      EXPECT_EQ(p.batch, (std::vector<BatchDim>{{2, p.m * p.k, p.k * p.n, p.m * p.n}}));
      EXPECT_EQ(num_elements(p, p.m, p.k, &BatchDim::a_stride), 2 * p.m * p.k);
    }
  }
}

TEST(Padded, WhatIsAlignedAndWhatRepeatsStaySo) {
  Product p{8,
            16,
            24,
            {nullptr, DType::bf16, 24, 1},
            {nullptr, DType::bf16, 16, 1},
            {nullptr, DType::bf16, 16, 1}};
  p.batch = {{3, 0, 384, 128}};
  EXPECT_EQ(padded(p), p);
  EXPECT_EQ(num_elements(p, 8, 24, &BatchDim::a_stride), 8 * 24);
}

TEST(Product, ResultsThatTheVendorWritesItself) {
  EXPECT_TRUE(has_direct_result(DType::bf16, DType::bf16));
  EXPECT_TRUE(has_direct_result(DType::bf16, DType::f32));
  EXPECT_FALSE(has_direct_result(DType::bf16, DType::f16));
  EXPECT_FALSE(has_direct_result(DType::f32, DType::bf16));
}

// x [m, k] and w [n, k] of e4m3 in rows of k elements, and a result in f32.
Product of_eight_bits(std::int64_t m, std::int64_t n, std::int64_t k) {
  Product p;
  p.m = m;
  p.n = n;
  p.k = k;
  p.a = {nullptr, DType::e4m3, k, 1};
  p.b = {nullptr, DType::e4m3, 1, k};
  p.d = {nullptr, DType::f32, n, 1};
  return p;
}

TEST(EightBits, AreTakenAlongKInRowsOfSixteenBytes) {
  EXPECT_TRUE(takes_eight_bits(of_eight_bits(1, 16, 16)));
  EXPECT_TRUE(takes_eight_bits(of_eight_bits(77, 4096, 208)));
  EXPECT_FALSE(takes_eight_bits(of_eight_bits(16, 24, 64))) << "columns";
  EXPECT_FALSE(takes_eight_bits(of_eight_bits(16, 32, 72))) << "K";
  EXPECT_FALSE(takes_eight_bits(of_eight_bits(16, 32, 0))) << "no sum";
  const auto with = [](auto change) {
    Product p = of_eight_bits(64, 32, 64);
    change(p);
    return takes_eight_bits(p);
  };
  EXPECT_TRUE(with([](Product& p) { p.a.row_stride = 80; }));
  EXPECT_FALSE(with([](Product& p) { p.a.row_stride = 72; }));
  EXPECT_FALSE(with([](Product& p) { p.b.row_stride = 32, p.b.col_stride = 1; }))
      << "weights along N";
  EXPECT_FALSE(with([](Product& p) { p.a.row_stride = 1, p.a.col_stride = 64; })) << "x along M";
  EXPECT_FALSE(with([](Product& p) { p.d.row_stride = 34; })) << "rows of 136 bytes";
  EXPECT_FALSE(with([](Product& p) { p.a.data = reinterpret_cast<void*>(0x108); }));
  EXPECT_TRUE(with([](Product& p) { p.a.data = reinterpret_cast<void*>(0x110); }));
  EXPECT_TRUE(with([](Product& p) { p.d.dtype = DType::bf16; }));
  EXPECT_FALSE(with([](Product& p) { p.d.dtype = DType::e4m3; }));
  EXPECT_FALSE(with([](Product& p) { p.b.dtype = DType::e5m2; })) << "another kind of float";
  EXPECT_FALSE(with([](Product& p) { p.a.dtype = p.b.dtype = DType::i8; }));
  EXPECT_TRUE(with([](Product& p) { p.batch = {{4, 64 * 64, 0, 64 * 32}}; }));
  EXPECT_FALSE(with([](Product& p) { p.batch = {{4, 64 * 64 + 8, 0, 64 * 32}}; }));
}

}  // namespace
}  // namespace epifuse::cuda
