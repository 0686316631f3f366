// Kernels of another family than a step's own, where those are not at their best or take nothing.
#pragma once

#include "backends/cuda/choose/step_choice.h"

namespace epifuse::cuda {

// On tensors that are no best case of the step's own: rows off the boundaries that it copies by,
// rows that are looked up, operands that it reads copies of. Which is faster there is measured.
// Null without any; may compile.
const StepKernels* others_kernels(const Prepared& prepared, std::size_t step, LateKernels& late,
                                  const codegen::Bound& bound, const StepChoice& choice);

// Of a product that no vendor multiplies: by another family, where the step's own cannot address
// its tensors, or number their tiles.
void choose_another(const Prepared& prepared, std::size_t step, LateKernels& late,
                    const codegen::Bound& bound, const targets::DeviceProfile& device,
                    StepChoice& choice);

// Of a step that reads copies along K, which `choice` expects with them: a kernel that reads what
// is given takes less where few rows are multiplied.
void weigh_without_copies(const Prepared& prepared, std::size_t step, LateKernels& late,
                          const codegen::Bound& bound, const targets::DeviceProfile& device,
                          StepChoice& choice);

}  // namespace epifuse::cuda
