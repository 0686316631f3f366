// Pairs of products that one step computes side by side: those of a gated activation.
#pragma once

#include <map>
#include <vector>

#include "plan/plan.h"

namespace epifuse::plan {

// Two products of one A that meet in an elementwise op, as act(x Wg) * (x Wu) does.
struct Gate {
  Gating gating;
  ir::ValueId matmul;         // that gives both, or the first of two
  ir::ValueId first, second;  // its columns, seen through two slices; or both matmuls
  bool operator==(const Gate&) const = default;
};

// All gates of a graph; a matmul is of one at most.
class Gates {
 public:
  Gates() = default;
  Gates(const ir::Graph& graph, const std::vector<bool>& is_live);

  // The gate that a matmul, or either of two, is of; null if none.
  const Gate* of(ir::ValueId matmul) const;
  // The matmul whose columns `value` is in its gate, else `value`.
  ir::ValueId producer(ir::ValueId value) const;

 private:
  std::map<ir::ValueId, Gate> gates_;  // by matmul
  std::map<ir::ValueId, ir::ValueId> producers_;
};

}  // namespace epifuse::plan
