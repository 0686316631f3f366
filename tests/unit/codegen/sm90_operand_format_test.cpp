// The table of what the Hopper GEMM multiplies, and what it stages of results.
#include "codegen/sm90/operand_format.h"

#include <gtest/gtest.h>

#include <set>
#include <string>

#include "codegen/matrix_view.h"
#include "codegen/sm90/dense.h"
#include "cuda_on_host.h"
#include "epifuse/error.h"
#include "kernels/common/operands.cuh"
#include "kernels/sm90/chunk.cuh"

namespace epifuse::codegen::sm90 {
namespace {

// Of a wgmma: 32 bytes of K in every format. The rate and the bytes of a step follow from that.
TEST(OperandFormat, InstructionsTake32BytesOfK) {
  constexpr int kInstructionBytes = 32, kInstructions = 4;  // of a step
  for (const OperandFormat& format : operand_formats()) {
    EXPECT_EQ(format.instruction_k * format.bytes(), kInstructionBytes) << format.name;
    EXPECT_EQ(format.step_k(), format.instruction_k * kInstructions) << format.name;
  }
}

TEST(OperandFormat, ADTypeHasOneRowOrNone) {
  std::set<DType> dtypes;
  for (const OperandFormat& format : operand_formats()) {
    EXPECT_TRUE(dtypes.insert(format.dtype).second) << format.name;
    EXPECT_EQ(find_operand_format(format.dtype), &format);
  }
  EXPECT_EQ(dtypes,
            (std::set{DType::f32, DType::bf16, DType::f16, DType::e4m3, DType::e5m2, DType::i8}));
  EXPECT_EQ(find_operand_format(DType::boolean), nullptr);
  EXPECT_THROW(operand_format(DType::i64), InternalError);
}

TEST(OperandFormat, NamesTheInstructionAndItsHeader) {
  plan::GemmDesc gemm;
  gemm.a.dtype = gemm.b.dtype = DType::f16;
  gemm.a.major = plan::Major::k;
  gemm.b.major = plan::Major::mn;
  EXPECT_EQ(wgmma(gemm, 192),
            "cute::SM90::GMMA::MMA_64x192x16_F32F16F16_SS<\n"
            "      cute::SM90::GMMA::Major::K, cute::SM90::GMMA::Major::MN>");
  EXPECT_EQ(wgmma_header(gemm, 192), "epifuse/wgmma_64x192x16_f16.hpp");
  gemm.a.dtype = gemm.b.dtype = DType::f32;
  EXPECT_EQ(wgmma(gemm, 48), "cute::SM90::GMMA::MMA_64x48x8_F32TF32TF32_SS_TN<>");
  EXPECT_EQ(wgmma_header(gemm, 48), "epifuse/wgmma_64x48x8_tf32.hpp");
  gemm.a.dtype = DType::e4m3;
  gemm.b.dtype = DType::e5m2;
  EXPECT_EQ(wgmma(gemm, 48), "cute::SM90::GMMA::MMA_64x48x32_F32E4M3E5M2_SS_TN<>");
  EXPECT_EQ(wgmma_header(gemm, 48), "epifuse/wgmma_64x48x32_e4m3_e5m2.hpp");
  gemm.a.dtype = gemm.b.dtype = DType::i8;
  EXPECT_EQ(wgmma(gemm, 48), "cute::SM90::GMMA::MMA_64x48x32_S32S8S8_SS_TN");
  EXPECT_EQ(wgmma_header(gemm, 48), "epifuse/wgmma_64x48x32_s8.hpp");
}

TEST(OperandFormat, FormatsGoWithThemselvesAndTheTwo8BitFloatsWithEachOther) {
  for (const OperandFormat& a : operand_formats()) {
    for (const OperandFormat& b : operand_formats()) {
      const bool are_fp8 = is_fp8(a.dtype) && is_fp8(b.dtype);
      EXPECT_EQ(go_together(a.dtype, b.dtype), a.dtype == b.dtype || are_fp8)
          << a.name << " " << b.name;
    }
  }
}

// A step of TF32 has half as many elements as one of bf16 and takes as long.
TEST(OperandFormat, DepthsAreComparedInSteps) {
  EXPECT_EQ(depth_in_16_bits(DType::bf16, 1000), 1000);
  EXPECT_EQ(depth_in_16_bits(DType::f16, 1000), 1000);
  EXPECT_EQ(depth_in_16_bits(DType::f32, 1000), 2000);
  EXPECT_EQ(depth_in_16_bits(DType::e4m3, 1000), 500);
}

// Bytes divided by 2 gave no slot at all to one result of 1 byte, and one to three of them.
TEST(OperandFormat, AChunkTakesWholeSlotsHoweverNarrowItsElements) {
  EXPECT_EQ(slots_of(1), 1);
  EXPECT_EQ(slots_of(2), 1);
  EXPECT_EQ(slots_of(4), 2);
  EXPECT_EQ(columns_of_slot(1), kChunkColumns);
  EXPECT_EQ(columns_of_slot(2), kChunkColumns);
  EXPECT_EQ(columns_of_slot(4), kChunkColumns / 2);
}

// The kernel's twin of these.
struct Narrow {
  using Storage = unsigned char;
};
struct Half {
  using Storage = unsigned short;
};
struct Wide {
  using Storage = float;
};

TEST(OperandFormat, TheKernelCountsAsManySlots) {
  for (const int bytes : {1, 2, 4}) {
    EXPECT_EQ(epifuse::sm90::slots_of(bytes), slots_of(bytes)) << bytes;
    EXPECT_EQ(epifuse::sm90::columns_of_slot(bytes), columns_of_slot(bytes)) << bytes;
  }
  using List = Types<Narrow, Half, Wide, Narrow>;
  EXPECT_EQ(epifuse::sm90::slots<List>(), 5);
  EXPECT_EQ(epifuse::sm90::slots<List>(1u << 2), 3);
  EXPECT_EQ(epifuse::sm90::slots<Types<>>(), 0);
}

TEST(OperandFormat, SharedMemoryHasASlotForEachNarrowResult) {
  plan::Epilogue epilogue;
  epilogue.num_accumulators = 1;
  epilogue.stores = {{"y", 1, DType::e4m3, plan::StoreKind::tile, 0}};
  EXPECT_EQ(store_slots(EpilogueLayout(epilogue), 0), 1);
  epilogue.stores.push_back({"z", 2, DType::e5m2, plan::StoreKind::tile, 0});
  epilogue.stores.push_back({"u", 3, DType::f32, plan::StoreKind::tile, 0});
  EXPECT_EQ(store_slots(EpilogueLayout(epilogue), 0), 4);
  EXPECT_EQ(store_slots(EpilogueLayout(epilogue), 1u << 1), 3);
}

// What moves rows to 16-byte boundaries takes two bytes at a time: an odd byte would be dropped.
TEST(OperandFormat, RowsAtOddBytesAreRefused) {
  alignas(16) static const unsigned char memory[4096] = {};
  MatrixView view;
  view.data = memory;
  view.rows = 16;
  view.cols = 64;
  view.row_stride = 66;
  view.col_stride = 1;
  EXPECT_FALSE(why_not_row_classes(view, DType::e4m3, "x"));
  EXPECT_FALSE(why_not_row_classes(view, DType::bf16, "x"));
  view.row_stride = 65;
  EXPECT_FALSE(why_not_row_classes(view, DType::bf16, "x"));
  const auto why = why_not_row_classes(view, DType::e4m3, "x");
  ASSERT_TRUE(why);
  EXPECT_EQ(why->code, "odd_bytes");
  view.rows = 1;  // seven classes have no rows: what they read lies outside of one element
  EXPECT_FALSE(why_not_row_classes(view, DType::e4m3, "x"));
  EXPECT_EQ(row_classes(view, DType::e4m3)[1].shift, kShiftBytes);
}

}  // namespace
}  // namespace epifuse::codegen::sm90
