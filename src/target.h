// From a public Target to the row of targets.def it names.
#pragma once

#include "codegen/kernel.h"
#include "epifuse/program.h"

namespace epifuse {

// Throws ArgumentError naming the rows when there is no such target.
const codegen::TargetInfo& target_info(const Target& target);

// The options as the target means them: TF32 is the GPUs'.
CompileOptions options_on(const codegen::TargetInfo& target, const CompileOptions& options);

}  // namespace epifuse
