// Misaligned operands as aligned rows: where each element goes.
#include "backends/cuda/choose/aligned_copies.h"

#include <gtest/gtest.h>

#include <set>

namespace epifuse::cuda {
namespace {

using Longs = std::vector<std::int64_t>;

struct Operands {
  plan::FusedGemm step;
  codegen::Bound bound;
};

Operands operands(const ir::Layout& a, const ir::Layout& b) {
  Operands out;
  out.step.gemm.a = {0, false, DType::bf16};
  out.step.gemm.b = {1, false, DType::bf16};
  out.bound.tensors = {{nullptr, a}, {nullptr, b}};
  return out;
}

const ir::Layout kRows{0, {5, 13}, {13, 1}}, kColumns{0, {13, 7}, {1, 13}};

TEST(AlignedCopies, RowsBeginAtSixteenBytesAlongTheDimThatTheyLieAlong) {
  const Operands all = operands(kRows, kColumns);
  const auto copies = aligned_copies(all.step, all.bound);
  ASSERT_EQ(copies.size(), 2u);
  EXPECT_EQ(copies[0].to.layout.strides, (Longs{16, 1}));
  EXPECT_EQ(copies[0].bytes, 2u * 5 * 16);
  EXPECT_EQ(copies[1].to.layout.strides, (Longs{1, 16}));
  EXPECT_EQ(copies[1].bytes, 2u * 7 * 16);
  EXPECT_EQ(copies[1].to.layout.shape, (Longs{13, 7}));
}

TEST(AlignedCopies, OnlyOfTheOperandsThatAreMisaligned) {
  const ir::Layout rows{0, {5, 13}, {16, 1}};
  EXPECT_TRUE(aligned_copies(operands(rows, rows).step, operands(rows, rows).bound).empty());
  const Operands all = operands(rows, kColumns);
  ASSERT_EQ(aligned_copies(all.step, all.bound).size(), 1u);
  EXPECT_EQ(aligned_copies(all.step, all.bound)[0].operand, 1);
  Operands looked_up = all;
  looked_up.step.gemm.a.lookup = 2;
  EXPECT_TRUE(aligned_copies(looked_up.step, looked_up.bound).empty());
}

TEST(AlignedCopies, OfRowsThatAreAlignedInABatchThatIsNot) {
  const Operands all = operands({0, {3, 5, 8}, {44, 8, 1}}, {0, {3, 8, 16}, {128, 16, 1}});
  const auto copies = aligned_copies(all.step, all.bound);
  ASSERT_EQ(copies.size(), 1u);
  EXPECT_EQ(copies[0].to.layout.strides, (Longs{40, 8, 1}));
}

TEST(AlignedCopies, OneValueIsCopiedOnce) {
  Operands all = operands(kRows, kRows);
  all.step.gemm.b.value = 0;
  EXPECT_EQ(aligned_copies(all.step, all.bound).size(), 1u);
}

// Every element has a place of its own, within the bytes; a batch that repeats repeats.
TEST(AlignedCopies, BatchesLieBehindEachOther) {
  const Operands all = operands({0, {2, 3, 5, 13}, {0, 65, 13, 1}}, kColumns);
  const auto copies = aligned_copies(all.step, all.bound);
  ASSERT_EQ(copies.size(), 2u);
  const ir::Layout& to = copies[0].to.layout;
  EXPECT_EQ(to.strides[0], 0);
  std::set<std::int64_t> places;
  for (std::int64_t i = 0; i < 3; ++i) {
    for (std::int64_t j = 0; j < 5; ++j) {
      for (std::int64_t k = 0; k < 13; ++k) {
        places.insert(i * to.strides[1] + j * to.strides[2] + k * to.strides[3]);
      }
    }
  }
  EXPECT_EQ(places.size(), 3u * 5 * 13);
  EXPECT_LT(*places.rbegin(), static_cast<std::int64_t>(copies[0].bytes) / 2);
  const codegen::BoundTensor from{nullptr, all.bound.tensors[0].layout};
  EXPECT_EQ(as_copied(copies[0].to, from).layout.shape, (Longs{1, 3, 5, 13}));
}

TEST(AlignedCopies, ACopyGoesAlongRows) {
  const Operands all = operands(kRows, kColumns);
  const auto copies = aligned_copies(all.step, all.bound);
  const codegen::BoundTensor from = as_copied(all.bound.tensors[1], all.bound.tensors[1]);
  const codegen::BoundTensor to = as_copied(copies[1].to, all.bound.tensors[1]);
  EXPECT_EQ(from.layout.shape, (Longs{7, 13}));
  EXPECT_EQ(from.layout.strides, (Longs{13, 1}));
  EXPECT_EQ(to.layout.shape, (Longs{7, 13}));
  EXPECT_EQ(to.layout.strides, (Longs{16, 1}));
}

}  // namespace
}  // namespace epifuse::cuda
