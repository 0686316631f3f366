// Steps that multiply one A in one launch: whether they are, and the ways that are measured.
#pragma once

#include <cstddef>
#include <optional>

#include "backends/cuda/choose/ways.h"

namespace epifuse::cuda {

// How many steps from this one on are one launch on these tensors; 0: it is alone. Where nothing
// was measured, one launch must be expected to take less than `most_part` of each by itself.
std::size_t num_side_by_side(const Prepared& prepared, std::size_t step, LateKernels& late,
                             const ChoiceRules& rules, const codegen::Bound& bound,
                             double most_part = 1);

// What a measured choice for such steps goes by; nothing where they cannot be one launch.
std::optional<tune::StepForm> form_side_by_side(const Prepared& prepared, std::size_t step,
                                                LateKernels& late, const codegen::Bound& bound);

// The ways of the steps from this one on, where they may be one launch on these tensors: the one
// that the model chooses first, each by itself, the `most` kernels for all of them that are
// expected to take least. With `compiles` false only those that are compiled.
std::optional<Ways> ways_side_by_side(const Prepared& prepared, std::size_t step, LateKernels& late,
                                      const codegen::Bound& bound,
                                      const targets::DeviceProfile& device,
                                      std::size_t most = kAllWays, bool compiles = true);

}  // namespace epifuse::cuda
