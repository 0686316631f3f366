// Typing rules of block scales.
#pragma once

#include "ir/graph.h"

namespace epifuse::ir {

// Throws GraphError where the last two operands of a scaled product cannot be its scales.
void check_scales(const Graph& graph, const Node& node);

// Gives symbols that count blocks, and are not among the `given` ones, what the other sizes need.
void set_block_counts(const Graph& graph, const Sizes& given, Sizes& sizes);

}  // namespace epifuse::ir
