// Operands of 8 bits that run along M or N, where kernels multiply such operands along K only.
#include "codegen/k_major_copies.h"

#include <utility>
#include <vector>

namespace epifuse::codegen {
namespace {

using plan::FusedGemm;
using plan::Operand;

bool may_have_copy(const Operand& operand) {
  return size_bytes(operand.dtype) == 1 && operand.major == plan::Major::mn && operand.lookup < 0;
}

std::vector<Operand*> operands_of(plan::GemmDesc& gemm) {
  if (gemm.gating == plan::Gating::separate) return {&gemm.a, &gemm.b, &gemm.second_b};
  return {&gemm.a, &gemm.b};
}

// A value is copied as a whole, for all operands that it is.
bool agree(const plan::GemmDesc& gemm, const Operand& x, const Operand& y) {
  if (x.value != y.value || !(x.k_major_copy || y.k_major_copy)) return true;
  return x.k_major_copy == y.k_major_copy && k_is_last(gemm, x) == k_is_last(gemm, y);
}

}  // namespace

bool has_k_major_copies(const plan::GemmDesc& gemm) {
  return gemm.a.k_major_copy || gemm.b.k_major_copy || gemm.second_b.k_major_copy;
}

bool k_is_last(const plan::GemmDesc& gemm, const Operand& operand) {
  return operand.transposed == (&operand != &gemm.a);
}

std::optional<FusedGemm> with_k_major_copies(const FusedGemm& step) {
  FusedGemm out = step;
  const std::vector<Operand*> operands = operands_of(out.gemm);
  for (Operand* operand : operands) {
    if (!may_have_copy(*operand)) continue;
    operand->k_major_copy = true;
    operand->major = plan::Major::k;
  }
  if (!has_k_major_copies(out.gemm)) return std::nullopt;
  for (const Operand* x : operands) {
    for (const Operand* y : operands) {
      if (!agree(out.gemm, *x, *y)) return std::nullopt;
    }
  }
  return out;
}

FusedGemm without_k_major_copies(FusedGemm step) {
  for (Operand* operand : operands_of(step.gemm)) {
    if (std::exchange(operand->k_major_copy, false)) operand->major = plan::Major::mn;
  }
  return step;
}

std::optional<plan::WhyNot> why_not_with_copies(const KernelFamily& family, const plan::Plan& plan,
                                                FusedGemm& step,
                                                const targets::TargetInfo& target) {
  auto no = family.why_not(plan, step, target);
  if (!no) return no;
  auto copied = with_k_major_copies(step);
  if (!copied || family.why_not(plan, *copied, target)) return no;
  step = *std::move(copied);
  return std::nullopt;
}

}  // namespace epifuse::codegen
