// From a public Target to the row of targets.def it names.
#pragma once

#include "epifuse/program.h"
#include "targets/targets.h"

namespace epifuse {

// Throws ArgumentError naming the rows when there is no such target.
const targets::TargetInfo& target_info(const Target& target);

// The options as the target means them: TF32 is the GPUs'. Throws ArgumentError for a family that
// does not exist, on CPUs too.
CompileOptions options_on(const targets::TargetInfo& target, const CompileOptions& options);

}  // namespace epifuse
