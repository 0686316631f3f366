// Operands whose rows start off the boundaries that kernels copy by, as rows that do not; and those
// that kernels read along K alone, along K.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <vector>

#include "codegen/bound.h"
#include "plan/plan.h"
#include "targets/device_profile.h"

namespace epifuse::cuda {

constexpr int kBoundaryBytes = 16;  // that kernels copy by

// The largest power of 2 up to kBoundaryBytes at whose multiples all rows of a tensor start, in
// bytes.
int boundary_bytes(const codegen::BoundTensor& tensor, DType dtype);

// One operand: rows at multiples of 16 bytes, of more where they are long.
struct AlignedCopy {
  ir::ValueId operand;      // in Plan::graph
  codegen::BoundTensor to;  // without memory; what repeats repeats here, too
  std::size_t bytes = 0;
};

// Of all operands that need one, each value once, along the dim that its own rows lie along. Empty
// where rows are looked up.
std::vector<AlignedCopy> aligned_copies(const plan::FusedGemm& step, const codegen::Bound& bound);
// Along K, of the operands that the step reads as such copies (plan::Operand::k_major_copy).
std::vector<AlignedCopy> k_major_copies(const plan::FusedGemm& step, const codegen::Bound& bound);

// Whether what they take can be told: by measured rates, else by what the driver says of memory.
bool can_expect_copies(const targets::DeviceProfile& device);
// What they take; 0 where that cannot be told. Beside a tail behind its product, whose time the
// rates are of, each has no data in L2 and nothing beside it; fitted to 49 products on an H200 and
// an H100.
double copies_us(std::span<const AlignedCopy> copies, const targets::DeviceProfile& device);

// Tensors as kernels of a step's own family read them: with k_major_copies, at a stand-in address,
// in the place of what is copied. Kernels of other families read them as they are given.
class ReadTensors {
 public:
  ReadTensors(const plan::FusedGemm& step, const codegen::Bound& bound);
  const codegen::Bound& bound() const { return copied_ ? *copied_ : given_; }
  const std::vector<AlignedCopy>& copies() const { return copies_; }

 private:
  const codegen::Bound& given_;
  std::vector<AlignedCopy> copies_;
  std::optional<codegen::Bound> copied_;
};

// The tensor as a copy goes through it: no element twice, and rows along the last dim.
codegen::BoundTensor as_copied(codegen::BoundTensor tensor, const codegen::BoundTensor& like);

}  // namespace epifuse::cuda
