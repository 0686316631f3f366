#include "codegen/sm90/operand_format.h"

#include <fmt/format.h>

#include "base/check.h"

namespace epifuse::codegen::sm90 {
namespace {

constexpr OperandFormat kFormats[] = {
#define EPIFUSE_OPERAND_FORMAT(dtype, name, atom, instruction_k, sums, only_k_major, rounds, \
                               is_staged)                                                    \
  {DType::dtype, name, atom, instruction_k, sums, only_k_major, rounds, is_staged},
#include "codegen/sm90/operand_formats.def"
#undef EPIFUSE_OPERAND_FORMAT
};

std::string_view wgmma_major(plan::Major major) { return major == plan::Major::k ? "K" : "MN"; }

// Of b, as wgmma reads it.
const OperandFormat& in_stage(const plan::GemmDesc& gemm) {
  return operand_format(gemm.widens_b() ? gemm.a.dtype : gemm.b.dtype);
}

}  // namespace

std::span<const OperandFormat> operand_formats() { return kFormats; }

const OperandFormat* find_operand_format(DType dtype) {
  for (const OperandFormat& format : kFormats) {
    if (format.dtype == dtype) return &format;
  }
  return nullptr;
}

bool go_together(DType a, DType b) { return a == b || (is_fp8(a) && is_fp8(b)); }

const OperandFormat& operand_format(DType dtype) {
  const OperandFormat* format = find_operand_format(dtype);
  EPIFUSE_CHECK(format != nullptr, "operands are checked by why_not");
  return *format;
}

std::string wgmma(const plan::GemmDesc& gemm, int columns) {
  const OperandFormat& a = operand_format(gemm.a.dtype);
  const OperandFormat& b = in_stage(gemm);
  const std::string name = fmt::format("cute::SM90::GMMA::MMA_64x{}x{}_{}{}{}_SS", columns,
                                       a.instruction_k, a.sums, a.atom, b.atom);
  if (a.adds_integers()) return name + "_TN";
  if (a.only_k_major) return name + "_TN<>";
  return fmt::format("{}<\n      cute::SM90::GMMA::Major::{}, cute::SM90::GMMA::Major::{}>", name,
                     wgmma_major(gemm.a.major), wgmma_major(gemm.b.major));
}

std::string wgmma_header(const plan::GemmDesc& gemm, int columns) {
  const OperandFormat& a = operand_format(gemm.a.dtype);
  const OperandFormat& b = in_stage(gemm);
  const std::string names =
      a.dtype == b.dtype ? std::string(a.name) : fmt::format("{}_{}", a.name, b.name);
  return fmt::format("epifuse/wgmma_64x{}x{}_{}.hpp", columns, a.instruction_k, names);
}

std::int64_t depth_in_16_bits(DType dtype, std::int64_t k) {
  constexpr int kInstructionOf16Bits = 16;
  const int instruction_k = operand_format(dtype).instruction_k;
  return (k * kInstructionOf16Bits + instruction_k - 1) / instruction_k;
}

}  // namespace epifuse::codegen::sm90
