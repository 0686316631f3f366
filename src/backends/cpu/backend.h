// The CPU backend's entry in the table of backends.
#pragma once

#include <memory>

#include "backends/backend.h"

namespace epifuse::cpu {

std::unique_ptr<backends::Executable> prepare(const plan::Plan& plan,
                                              const targets::TargetInfo& target,
                                              const CompileOptions& options);

}  // namespace epifuse::cpu
