// What runs a step where nothing was measured or forced.
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "backends/cuda/choose/step_choice.h"

namespace epifuse::cuda {

// Of `kernels.kernels`, that of least expected time.
TimeMemo::Best best_compiled(const StepKernels& kernels, const plan::FusedGemm& gemm,
                             const codegen::GemmSizes& sizes, TimeMemo& times,
                             const targets::DeviceProfile& device);
// Of `kernels.candidates`, that of least expected time, where it promises clearly less than what is
// compiled.
std::optional<TimeMemo::Best> worth_compiling(const StepKernels& kernels,
                                              const plan::FusedGemm& gemm,
                                              const codegen::GemmSizes& sizes, double compiled_us,
                                              TimeMemo& times,
                                              const targets::DeviceProfile& device);

// All of `kernels.candidates`, that of least expected time first.
std::vector<TimeMemo::Best> by_expected_us(const StepKernels& kernels, const plan::FusedGemm& gemm,
                                           const codegen::GemmSizes& sizes,
                                           const targets::DeviceProfile& device);

// What a time is asked of: operands that lie as those of the variant do, or aligned ones, whose
// times measured slowdowns are multiples of.
enum class Operands { of_variant, aligned };
// What the model expects of the step's best candidate that may be of a variant, compiled or not.
// Empty without one.
std::optional<double> expected_of_variant(const StepKernels& usual, const plan::FusedGemm& gemm,
                                          const codegen::GemmVariant& variant, Operands operands,
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
