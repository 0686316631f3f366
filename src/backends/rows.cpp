// Reads and checks the integers that rows and groups go by.
#include "backends/rows.h"

#include <fmt/core.h>

#include <algorithm>

#include "base/float_types.h"
#include "codegen/integers.h"
#include "epifuse/error.h"
#include "ir/views.h"

namespace epifuse::backends {
namespace {

using ir::Graph;
using ir::Node;
using ir::Op;

[[noreturn]] void fail(const Graph& graph, const Node& node, std::size_t place, std::int64_t got,
                       std::string_view expected) {
  throw ArgumentError(fmt::format("{} '{}' expects {}, got {} at place {} of '{}'", name(node.op),
                                  node.name, expected, got, place, graph[ir::index_of(node)].name));
}

// Ends that never fall and stay within `num_rows`.
void check_ends(const Graph& graph, const Node& node, const std::vector<std::int64_t>& ends,
                std::int64_t num_rows) {
  std::int64_t before = 0;
  for (std::size_t i = 0; i < ends.size(); ++i) {
    if (ends[i] < before || ends[i] > num_rows) {
      fail(graph, node, i, ends[i],
           fmt::format("ends that never fall and are at most {}", num_rows));
    }
    before = ends[i];
  }
}

void check_rows(const Graph& graph, const Node& node, const std::vector<std::int64_t>& rows,
                std::int64_t num_rows) {
  for (std::size_t i = 0; i < rows.size(); ++i) {
    if (rows[i] >= 0 && rows[i] < num_rows) continue;
    fail(graph, node, i, rows[i],
         num_rows == 0 ? "no rows, as there are none"
                       : fmt::format("rows from {} to {}", -num_rows, num_rows - 1));
  }
}

void check_distinct(const Graph& graph, const Node& node, const std::vector<std::int64_t>& rows,
                    std::int64_t num_rows) {
  std::vector<bool> is_taken(static_cast<std::size_t>(num_rows));
  for (std::size_t i = 0; i < rows.size(); ++i) {
    if (is_taken[static_cast<std::size_t>(rows[i])]) {
      fail(graph, node, i, rows[i], "distinct rows");
    }
    is_taken[static_cast<std::size_t>(rows[i])] = true;
  }
}

std::vector<std::int64_t> repeated_rows(const std::vector<std::int64_t>& ends,
                                        std::int64_t num_rows) {
  std::vector<std::int64_t> rows(static_cast<std::size_t>(num_rows));
  std::size_t group = 0;
  for (std::size_t row = 0; row < rows.size(); ++row) {
    while (group + 1 < ends.size() && ends[group] <= static_cast<std::int64_t>(row)) ++group;
    rows[row] = static_cast<std::int64_t>(group);
  }
  return rows;
}

}  // namespace

std::vector<std::int64_t> integers_of(const Graph& graph, const Node& node,
                                      const codegen::Bound& bound) {
  const auto [data, layout] = codegen::bound_integers(graph, node, bound);
  const DType dtype = graph[ir::index_of(node)].type.dtype;
  std::vector<std::int64_t> integers(static_cast<std::size_t>(layout.shape[0]));
  for (std::size_t i = 0; i < integers.size(); ++i) {
    const std::int64_t at = layout.offset + static_cast<std::int64_t>(i) * layout.strides[0];
    integers[i] = static_cast<std::int64_t>(load_element(data, dtype, at));
  }
  return integers;
}

std::vector<std::int64_t> looked_up_rows(const Graph& graph, const Node& node,
                                         const codegen::Bound& bound) {
  std::vector<std::int64_t> rows = integers_of(graph, node, bound);
  const std::int64_t num_results = ir::eval({node.type.shape[0]}, bound.sizes).front();
  if (node.op == Op::repeat_rows) {
    check_ends(graph, node, rows, num_results);
    if (rows.empty() && num_results > 0) {
      throw ArgumentError(
          fmt::format("repeat_rows '{}' expects groups to repeat rows of, got none", node.name));
    }
    return repeated_rows(rows, num_results);
  }
  const bool puts = node.op == Op::put_rows;
  const std::int64_t num_rows = codegen::num_named_rows(graph, node, bound);
  for (std::int64_t& row : rows) {
    if (row < 0 && row >= -num_rows) row += num_rows;
  }
  check_rows(graph, node, rows, num_rows);
  if (puts) check_distinct(graph, node, rows, num_rows);
  return rows;
}

std::vector<std::int64_t> rows_put(const Graph& graph, const Node& node,
                                   const codegen::Bound& bound) {
  const std::vector<std::int64_t> places = looked_up_rows(graph, node, bound);
  const std::int64_t num_results = ir::eval({node.type.shape[0]}, bound.sizes).front();
  std::vector<std::int64_t> rows(static_cast<std::size_t>(num_results), -1);
  for (std::size_t i = 0; i < places.size(); ++i) {
    rows[static_cast<std::size_t>(places[i])] = static_cast<std::int64_t>(i);
  }
  return rows;
}

std::vector<GroupRows> rows_of_groups(const Graph& graph, const Node& node,
                                      const codegen::Bound& bound) {
  const std::vector<std::int64_t> integers = integers_of(graph, node, bound);
  const std::vector<std::int64_t> shape = ir::eval(node.type.shape, bound.sizes);
  std::vector<GroupRows> groups;
  const bool is_along_k = node.op == Op::k_grouped_matmul;
  if (shape.size() == 2 || is_along_k) {
    const ir::Shape& a = graph[node.args[0]].type.shape;
    const Dim& k = a[node.transpose_a ? 0 : 1];
    check_ends(graph, node, integers, is_along_k ? k.eval(bound.sizes) : shape[0]);
    std::int64_t first = 0;
    for (const std::int64_t end : integers) {
      groups.push_back({first, end - first});
      first = end;
    }
    return groups;
  }
  check_rows(graph, node, integers, shape[1] + 1);
  for (std::size_t g = 0; g < integers.size(); ++g) {
    groups.push_back({static_cast<std::int64_t>(g) * shape[1], integers[g]});
  }
  return groups;
}

}  // namespace epifuse::backends
