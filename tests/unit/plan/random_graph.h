// Random graphs of every kind of op, from a fixed seed.
#pragma once

#include "ir/graph.h"

namespace epifuse::test {

struct RandomGraphOptions {
  unsigned seed = 0;
  int num_ops = 24;
  bool narrow = false;  // also bf16 and f16 values
};
ir::Graph random_graph(const RandomGraphOptions& options);

// Sizes of its symbols.
Sizes random_graph_sizes();

}  // namespace epifuse::test
