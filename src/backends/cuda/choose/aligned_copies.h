// Operands whose rows start off the boundaries that kernels copy by, as rows that do not.
#pragma once

#include <cstddef>
#include <vector>

#include "codegen/bound.h"
#include "plan/plan.h"

namespace epifuse::cuda {

constexpr int kBoundaryBytes = 16;  // that kernels copy by

// The largest power of 2 up to kBoundaryBytes at whose multiples all rows of a tensor start, in
// bytes.
int boundary_bytes(const codegen::BoundTensor& tensor, DType dtype);

// One operand: dense rows at multiples of 16 bytes, along the dim that its own rows lie along.
struct AlignedCopy {
  ir::ValueId operand;      // in Plan::graph
  codegen::BoundTensor to;  // without memory; what repeats repeats here, too
  std::size_t bytes = 0;
};

// Of all operands that need one, each value once. Empty where rows are looked up.
std::vector<AlignedCopy> aligned_copies(const plan::FusedGemm& step, const codegen::Bound& bound);

// The tensor as a copy goes through it: no element twice, and rows along the last dim.
codegen::BoundTensor as_copied(codegen::BoundTensor tensor, const codegen::BoundTensor& like);

}  // namespace epifuse::cuda
