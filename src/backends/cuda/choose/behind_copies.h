// A step's kernel for aligned operands, behind copies of those that are misaligned.
#pragma once

#include <cstddef>
#include <optional>
#include <string_view>

#include "backends/cuda/choose/step_choice.h"

namespace epifuse::cuda {

// `sizes`: the step's own, before any exchange. Empty where copies do not help, where they and the
// kernel are expected to take more than `most_us`, and where no compiler is. `named`: the kernel,
// by its candidate_name, or empty where there is none of that name; else the model's choice.
std::optional<BehindCopies> behind_copies(const Prepared& prepared, std::size_t step,
                                          LateKernels& late, codegen::Bound bound,
                                          const targets::DeviceProfile& device,
                                          const codegen::GemmSizes& sizes, double most_us,
                                          std::string_view named = "");

}  // namespace epifuse::cuda
