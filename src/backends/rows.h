// The integers that rows are looked up by, and the rows of groups, read from host memory.
#pragma once

#include <cstdint>
#include <vector>

#include "codegen/bound.h"
#include "ir/graph.h"

namespace epifuse::backends {

// The rows of one group among those of x: of all its dims but the last, in row-major order.
struct GroupRows {
  std::int64_t first = 0, count = 0;
  bool operator==(const GroupRows&) const = default;
};

// The integers that `node` goes by (ir::index_of). Of tensors that are bound only inputs are
// needed. Each of the functions below throws ArgumentError where they are not what ir/graph.h asks
// for.
std::vector<std::int64_t> integers_of(const ir::Graph& graph, const ir::Node& node,
                                      const codegen::Bound& bound);

// For each row of a take_rows, repeat_rows or put_rows, the row looked up or put. Rows are those of
// the first dim.
std::vector<std::int64_t> looked_up_rows(const ir::Graph& graph, const ir::Node& node,
                                         const codegen::Bound& bound);

// For each row of the result of a put_rows the row that is put there, -1 where none is.
std::vector<std::int64_t> rows_put(const ir::Graph& graph, const ir::Node& node,
                                   const codegen::Bound& bound);

// The rows of each group of a grouped_matmul; of a k_grouped_matmul its part of K.
std::vector<GroupRows> rows_of_groups(const ir::Graph& graph, const ir::Node& node,
                                      const codegen::Bound& bound);

}  // namespace epifuse::backends
