// How a fused step runs on the tensors at hand: by which kernel, or split.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "backends/cuda/choose/aligned_copies.h"
#include "backends/cuda/choose/tuned_choices.h"
#include "backends/cuda/prepare/late_kernels.h"
#include "backends/cuda/prepare/prepare.h"

namespace epifuse::cuda {

// The kernel for aligned operands, which the misaligned ones are copied to first.
struct BehindCopies {
  codegen::GemmSizes sizes;              // as the kernel sees them
  const StepKernels* kernels = nullptr;  // of the variant without misaligned operands
  const Kernel* kernel = nullptr;
  double expected_us = 0;  // with the copies
};

struct StepChoice {
  codegen::GemmSizes sizes;              // as the kernel sees them
  const StepKernels* kernels = nullptr;  // of the variant that the tensors ask for
  codegen::GemmVariant variant;          // that of the step's own family: measured choices go by it
  const Kernel* kernel = nullptr;        // one of them, or compiled late; null: the step is split
  double expected_us = 0;                // by the family's model; 0 where nothing is to be done
  std::optional<double> unfused_us;      // as product and tail, where measurements tell
  std::string measured;                  // what was measured, where that decided
  std::optional<plan::WhyNot> why_split;
  std::optional<plan::WhyNot> why_left;  // to a framework, as RunPlan has it
  // Where looked-up rows of A are copied in order first: the product of what was copied.
  InOrder* in_order = nullptr;
  std::optional<BehindCopies> behind_copies;
  // No kernel of the step's family can address the tensors as they are; sizes and variant are of
  // their copies.
  bool is_copied = false;
  // Of 8-bit operands that run along M or N, where the kernel reads them along K alone.
  std::vector<AlignedCopy> k_major_copies;

  tune::StepForm form() const { return {sizes, variant, is_copied}; }
};

// Step `step` of `prepared` must be a family's. Compiles only when tensors come that ask for a
// variant never seen, for a config that was found by measuring, or for one that is expected to take
// clearly less time at their sizes than any that is there.
StepChoice choose_step(const Prepared& prepared, std::size_t step, LateKernels& late,
                       const codegen::Bound& bound, const ChoiceRules& rules);

// "FAMILY, ping-pong 128x192, 4 stages; a off 16-byte boundaries" of a choice with a kernel.
std::string print(const StepChoice& choice);
// "35.2 us expected, 61.0 us as product and tail"; "" where there was nothing to choose by.
std::string grounds(const StepChoice& choice);

}  // namespace epifuse::cuda
