// What runs a step where nothing was measured or forced.
#pragma once

#include <cstddef>
#include <optional>

#include "backends/cuda/choose/step_choice.h"

namespace epifuse::cuda {

// What the model expects of the step's best candidate in a variant, compiled or not. Empty without
// one.
std::optional<double> expected_of_variant(const StepKernels& usual, const plan::FusedGemm& gemm,
                                          const codegen::GemmVariant& variant,
                                          const codegen::GemmSizes& sizes, LateKernels& late,
                                          const targets::DeviceProfile& device);

// Both set the kernel of `choice.kernels` and its expected time at `choice.sizes`.
// The kernel of least expected time among those that are compiled.
void choose_kernel(const plan::FusedGemm& gemm, const codegen::GemmSizes& sizes, LateKernels& late,
                   const targets::DeviceProfile& device, StepChoice& choice);
// Compiles another one where it promises clearly more.
void choose_by_model(const Prepared& prepared, std::size_t step, LateKernels& late,
                     const targets::DeviceProfile& device, StepChoice& choice);

}  // namespace epifuse::cuda
