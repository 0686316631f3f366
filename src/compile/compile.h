// Compiling with plans that others have made.
#pragma once

#include "epifuse/program.h"
#include "plan/plans.h"

namespace epifuse {

// As `compile`; the plan is taken from `plans`, or put there.
Program compile(const Graph& graph, const Target& target, const CompileOptions& options,
                plan::Plans& plans);

}  // namespace epifuse
