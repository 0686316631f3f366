// Cuts a framework's graph where the framework computes something in between.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "epifuse/fusion.h"
#include "ir/graph.h"
#include "passes/pipeline.h"

namespace epifuse {

struct FusionLevel {
  ir::Graph graph;
  // Names of the framework's values of which the graph has halves, by those of the halves.
  std::map<std::string, std::string> whole_of;
  // Of each product, work on halves of its heads, which one kernel has to do or none.
  std::vector<passes::NamedWorkOnHeads> heads;
};

// Of each value, whether it is a product or computed of one.
std::vector<bool> needs_product(const ir::Graph& graph);

// The graphs of the values that need 0, 1, 2.. turns of the framework before them; empty ones are
// left out. What comes from an earlier one is an input. So whatever a plan of one of them puts into
// one kernel, the framework never has to compute in the middle of it. Reshapes that hide a
// product's result from the work on it are moved behind that work, and slices of a gate's columns
// before it; results are named and shaped as the work has them. Throws ArgumentError when the
// framework says that a value waits for itself.
//
// `takes_heads`: which work on halves of heads becomes work on both halves.
std::vector<FusionLevel> fusion_levels(const ir::Graph& graph, const FusionRequest& request,
                                       const passes::TakesHeads& takes_heads);

}  // namespace epifuse
