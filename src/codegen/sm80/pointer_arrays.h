// Many problems by the cp.async + mma.sync GEMM; see PointerArrayFunctions for what each function
// promises.
#pragma once

#include <vector>

#include "codegen/pointer_arrays.h"
#include "codegen/sm80/config.h"

namespace epifuse::codegen::sm80 {

// Those that take one tile after another.
std::vector<Config> pointer_array_configs(const std::vector<Config>& configs);
KernelSource describe_source(const plan::Plan& plan, const Config& config,
                             const targets::TargetInfo& target);
KernelSource by_hand_source(const plan::Plan& plan, const targets::TargetInfo& target);
PointerArrayLaunches pointer_array_launches(const plan::Plan& plan, const Config& config,
                                            const Launch& usual, const BoundPointerArrays& problems,
                                            const targets::DeviceLimits& limits, char* workspace);

}  // namespace epifuse::codegen::sm80
