// Typing rules of block scales.
#pragma once

#include "ir/graph.h"

namespace epifuse::ir {

// Throws GraphError where the last two operands of a scaled product cannot be its scales.
void check_scales(const Graph& graph, const Node& node);

}  // namespace epifuse::ir
