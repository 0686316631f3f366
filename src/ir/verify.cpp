// The invariants of ir/graph.h.
#include <fmt/core.h>

#include <string_view>
#include <unordered_set>

#include "base/check.h"
#include "ir/graph.h"
#include "ir/words.h"

namespace epifuse::ir {
namespace {

void check(bool holds, const Node& node, std::string_view message) {
  if (!holds) {
    throw InternalError(fmt::format("value '{}' ({}): {}", node.name, name(node.op), message));
  }
}

bool is_good_name(std::string_view name) { return is_identifier(name) && !is_reserved_word(name); }

// Nodes that mean the same compare equal: fields of other ops keep their defaults.
void check_unused_fields(const Node& node) {
  check(node.op == Op::constant || node.value == 0, node, "only constants have a value");
  check(is_matmul(node.op) || (!node.transpose_a && !node.transpose_b), node,
        "only matmul transposes its operands");
  check(is_matmul(node.op) || !node.promoted, node, "only products have promoted sums");
  check(is_block(node.op) || node.block_rows == 1, node, "only block ops have rows of blocks");
  check(node.op == Op::transpose || node.permutation.empty(), node,
        "only transpose has a permutation");
  check(node.op == Op::slice || node.ranges.empty(), node, "only slice has ranges");
}

void check_type(const Graph& graph, const Node& node) {
  TensorType expected;
  try {
    expected = infer_type(graph, node);
  } catch (const GraphError& error) {
    check(false, node, error.what());
  }
  check(node.type == expected, node, "its type is not what its operands give");
}

void check_node(const Graph& graph, ValueId id) {
  const Node& node = graph[id];
  for (ValueId arg : node.args) {
    check(arg >= 0 && arg < id, node, "an operand does not come before it");
  }
  check_unused_fields(node);
  check_type(graph, node);
}

}  // namespace

void verify(const Graph& graph) {
  EPIFUSE_CHECK(is_good_name(graph.name), "graph name '" + graph.name + "'");
  std::unordered_set<std::string_view> names;
  for (ValueId id = 0; id < static_cast<ValueId>(graph.nodes.size()); ++id) {
    const Node& node = graph[id];
    check(is_good_name(node.name), node, "its name is no free identifier");
    check(names.insert(node.name).second, node, "its name is used twice");
    check_node(graph, id);
  }
  names.clear();
  for (const Output& output : graph.outputs) {
    EPIFUSE_CHECK(is_good_name(output.name), "output name '" + output.name + "'");
    EPIFUSE_CHECK(names.insert(output.name).second, "two outputs called '" + output.name + "'");
    EPIFUSE_CHECK(output.value >= 0 && output.value < static_cast<ValueId>(graph.nodes.size()),
                  "output '" + output.name + "' is no value of the graph");
  }
}

}  // namespace epifuse::ir
