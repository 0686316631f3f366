// Finding kernels where their plans are kept for those who compile them.
#pragma once

#include "epifuse/fusion.h"
#include "plan/plans.h"

namespace epifuse {

// As `find_fusions`. The plan of each kernel is taken from `plans`, or put there: that of its graph
// with the strides of the framework's tensors.
Fusions find_fusions(const Graph& graph, const Target& target, const CompileOptions& options,
                     const FusionRequest& request, plan::Plans& plans);

}  // namespace epifuse
