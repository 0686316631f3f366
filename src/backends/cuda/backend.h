// The CUDA backend's row in the table of backends.
#pragma once

#include <memory>
#include <string>

#include "backends/backend.h"

namespace epifuse::cuda {

// Compiles every kernel of the plan; needs NVRTC or a warm cache, but no GPU.
std::unique_ptr<backends::Executable> prepare(const plan::Plan& plan,
                                              const targets::TargetInfo& target,
                                              const CompileOptions& options);

// The row of targets.def that the current device runs; empty without one.
std::string detect();

}  // namespace epifuse::cuda
