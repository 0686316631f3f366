// How the Hopper GEMM takes the elements of a dtype: in its instructions, stages and staging.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "plan/plan.h"

namespace epifuse::codegen::sm90 {

constexpr int kStepBytes = 128;    // of K, of a step of the mainloop: one swizzled row
constexpr int kChunkColumns = 64;  // of results that are staged together

// A row of operand_formats.def.
struct OperandFormat {
  DType dtype;            // in memory
  std::string_view name;  // in the name of an instruction's header: "tf32"
  std::string_view atom;  // in the name of the instruction: "TF32"
  int instruction_k;      // elements of K that an instruction takes
  std::string_view sums;  // in the name of the instruction: "F32", or of integers "S32"
  bool only_k_major;      // operands are contiguous along K; else rows may run along M or N, too
  bool rounds;            // tensor cores take fewer bits than memory has, which must be allowed
  bool is_staged;         // full operands and results of the epilogue may be of it

  int bytes() const { return static_cast<int>(size_bytes(dtype)); }
  bool adds_integers() const { return sums == "S32"; }
  int step_k() const { return kStepBytes / bytes(); }  // elements of K of a step
};
std::span<const OperandFormat> operand_formats();
const OperandFormat* find_operand_format(DType dtype);  // null when there is none
const OperandFormat& operand_format(DType dtype);       // throws InternalError without one

// Whether an instruction multiplies one by the other.
bool go_together(DType a, DType b);

// "cute::SM90::GMMA::MMA_64x192x16_F32BF16BF16_SS<..>", of 64 rows and so many columns.
std::string wgmma(const plan::GemmDesc& gemm, int columns);
// The header of it, as kernels/sm90/cutlass_headers.txt names it.
std::string wgmma_header(const plan::GemmDesc& gemm, int columns);

// K of a product of 16-bit elements that takes as many steps.
std::int64_t depth_in_16_bits(DType dtype, std::int64_t k);

// Staging is made of slots of rows of 128 bytes, of which a chunk takes whole ones however narrow
// its elements are: the twins of columns_of_slot and slots_of in kernels/sm90/chunk.cuh.
constexpr int kSlotRowBytes = 128;
constexpr int columns_of_slot(int element_bytes) {
  return std::min(kSlotRowBytes / element_bytes, kChunkColumns);
}
constexpr int slots_of(int element_bytes) { return kChunkColumns / columns_of_slot(element_bytes); }

}  // namespace epifuse::codegen::sm90
