// Sums of what a product's kernel reads anyway, such as the gradient of a bias of the one before.
#pragma once

#include <set>
#include <string_view>
#include <vector>

#include "ir/graph.h"

namespace epifuse {

// A reduction of a tensor that work on a product reads, elsewhere in the graph.
struct SumBeside {
  std::vector<ir::ValueId> values;  // the reduction, and what is computed of it
  ir::ValueId reader;               // of a level at or behind that of the reduction
};

// `levels`: of each value. Those whose values nothing waits for: neither another product nor one of
// `waited_for`.
std::vector<SumBeside> sums_beside_products(const ir::Graph& graph, const std::vector<int>& levels,
                                            const std::set<std::string_view>& waited_for);

}  // namespace epifuse
