// Random graphs of every op, at sizes that kernels find hard: what `epifuse verify` runs.
#pragma once

#include <cstdint>

#include "epifuse/dim.h"
#include "ir/graph.h"

namespace epifuse {

struct RandomGraph {
  ir::Graph graph;
  Sizes sizes;               // of the symbols that its inputs have
  bool has_special = false;  // to be run on inputs with NaN, infinities, -0 and subnormals too
};

// The graph of a seed, the same on every machine: one to a few products (plain, batched, gated,
// with block scales, of groups of rows or along K, side by side, in chains) and elementwise ops,
// casts, views, reductions, joins and lookups around them. Sizes are 1 to about 3000, one in twenty
// graphs has one of 0; at most some 60,000 elements a tensor, about.
RandomGraph random_graph(std::uint64_t seed);

}  // namespace epifuse
