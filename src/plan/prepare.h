// Rewrites a graph so that every output and every operand can be expressed in a plan.
#pragma once

#include <string>
#include <unordered_set>

#include "ir/graph.h"

namespace epifuse::plan {

// Hands out names that no value of a graph has.
class FreeNames {
 public:
  explicit FreeNames(const ir::Graph& graph);
  std::string take(const std::string& wanted);

 private:
  std::unordered_set<std::string> taken_;
};

// reshape(f(a, matmul(b, w))) as an output -> f(reshape(a), matmul(reshape(b), w)): the value that
// is computed has the output's own shape, so no copy is needed.
ir::Graph hoist_output_reshapes(const ir::Graph& graph);

// Adds copies (a cast to the same dtype) so that
//   every output is a computed value, and no two outputs are the same value,
//   what a matmul multiplies is a matrix in memory with a contiguous dim, none that is repeated,
//   the operand of a reshape has strides that the reshape can be seen through.
ir::Graph add_copies(const ir::Graph& graph);

// Both, and no dead code.
ir::Graph prepare(const ir::Graph& graph);

}  // namespace epifuse::plan
