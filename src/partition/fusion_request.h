// What a caller says of a framework's graph, checked.
#pragma once

#include "epifuse/fusion.h"
#include "ir/graph.h"
#include "partition/fusion_kernel.h"

namespace epifuse {

// Throws ArgumentError for a name that is no value of the framework's, or a size that the graph
// does not have.
void check(const FusionRequest& request, const ir::Graph& graph, const FrameworkValues& values);

}  // namespace epifuse
