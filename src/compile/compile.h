// Compiling with plans that others have made.
#pragma once

#include <memory>

#include "epifuse/program.h"
#include "plan/plans.h"

namespace epifuse {

// What `compile` makes kernels of. Throws GraphError and ArgumentError as it does.
std::shared_ptr<const plan::Plan> checked_plan(const Graph& graph, const Target& target,
                                               const CompileOptions& options, plan::Plans& plans);

// As `compile`; the plan is taken from `plans`, or put there.
Program compile(const Graph& graph, const Target& target, const CompileOptions& options,
                plan::Plans& plans);

}  // namespace epifuse
