// Operands of 8 bits that run along M or N, where kernels multiply such operands along K only: they
// are given copies along K.
#pragma once

#include <optional>

#include "codegen/family.h"
#include "plan/plan.h"

namespace epifuse::codegen {

bool has_k_major_copies(const plan::GemmDesc& gemm);
// Of an operand of `gemm`: whether K is the last dim of its tensor, else the last but one.
bool k_is_last(const plan::GemmDesc& gemm, const plan::Operand& operand);
// With copies of all operands that may have one. Empty where none may: of 16 bits and more, of rows
// that are looked up, and where a value is wanted both as it lies and along K.
std::optional<plan::FusedGemm> with_k_major_copies(const plan::FusedGemm& step);
// With operands as they lie.
plan::FusedGemm without_k_major_copies(plan::FusedGemm step);

// As family.why_not. A step that the family takes with such copies alone comes back with them.
std::optional<plan::WhyNot> why_not_with_copies(const KernelFamily& family, const plan::Plan& plan,
                                                plan::FusedGemm& step,
                                                const targets::TargetInfo& target);

}  // namespace epifuse::codegen
