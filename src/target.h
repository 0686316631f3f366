// From a public Target to the row of targets.def it names.
#pragma once

#include "codegen/kernel.h"
#include "epifuse/program.h"

namespace epifuse {

// Throws ArgumentError naming the rows when there is no such target.
const codegen::TargetInfo& target_info(const Target& target);

}  // namespace epifuse
