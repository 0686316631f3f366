// Prints graphs as `.epi` text.
#include <fmt/core.h>
#include <fmt/ranges.h>

#include "base/text.h"
#include "ir/graph.h"
#include "ir/text.h"

namespace epifuse::ir {
namespace {

constexpr std::size_t kMaxHeaderLength = 100;

std::string print_ranges(const std::vector<SliceRange>& ranges, const Shape& shape) {
  std::vector<std::string> parts;
  for (std::size_t i = 0; i < ranges.size(); ++i) {
    const SliceRange& range = ranges[i];
    const bool whole = range.start.is(0) && range.stop == shape[i];
    std::string text = whole ? ":" : fmt::format("{}:{}", range.start.str(), range.stop.str());
    if (range.step != 1) text += fmt::format(":{}", range.step);
    parts.push_back(std::move(text));
  }
  return fmt::format("[{}]", fmt::join(parts, ", "));
}

std::string print_matmul(const Graph& graph, const Node& node) {
  const Node& a = graph[node.args[0]];
  std::string text =
      fmt::format("{} {}{}, {}{}", name(node.op), a.name, node.transpose_a ? "^T" : "",
                  graph[node.args[1]].name, node.transpose_b ? "^T" : "");
  for (std::size_t i = 2; i < node.args.size(); ++i) text += ", " + graph[node.args[i]].name;
  if (node.type.dtype != usual_result(a.type.dtype))
    text += fmt::format(" -> {}", name(node.type.dtype));
  if (node.promoted) text += " promoted";
  return text;
}

// What stands to the right of `=`.
std::string print_call(const Graph& graph, const Node& node) {
  if (node.op == Op::constant) return "constant " + number_text(node.value);
  if (is_matmul(node.op)) return print_matmul(graph, node);
  std::vector<std::string_view> operands;
  for (const ValueId arg : node.args) operands.push_back(graph[arg].name);
  const std::string call = fmt::format("{} {}", name(node.op), fmt::join(operands, ", "));
  switch (node.op) {
    case Op::transpose: return fmt::format("{} [{}]", call, fmt::join(node.permutation, ", "));
    case Op::reshape:
    case Op::broadcast:
    case Op::repeat_rows:
    case Op::put_rows: return fmt::format("{} {}", call, print(node.type.shape));
    case Op::slice:
      return fmt::format("{} {}", call, print_ranges(node.ranges, graph[node.args[0]].type.shape));
    case Op::cast: return fmt::format("{} -> {}", call, name(node.type.dtype));
    case Op::block_max:
    case Op::block_first:
      if (node.block_rows == 1) return call;
      return fmt::format("{} [{}, {}]", call, node.block_rows, kBlockColumns);
    default: return call;
  }
}

bool is_input(const Node& node) { return node.op == Op::input || node.op == Op::scalar; }

// One line when it fits, else one input a line.
std::string print_header(const Graph& graph) {
  std::vector<std::string> inputs;
  for (const Node& node : graph.nodes) {
    if (!is_input(node)) continue;
    const std::string type = node.op == Op::scalar ? "scalar" : print(node.type);
    inputs.push_back(fmt::format("{}: {}", node.name, type));
  }
  std::string line = fmt::format("graph {}({}) {{\n", graph.name, fmt::join(inputs, ", "));
  if (line.size() <= kMaxHeaderLength) return line;
  return fmt::format("graph {}(\n    {}) {{\n", graph.name, fmt::join(inputs, ",\n    "));
}

}  // namespace

std::string print(const Shape& shape) {
  std::vector<std::string> dims;
  for (const Dim& dim : shape) dims.push_back(dim.str());
  return fmt::format("[{}]", fmt::join(dims, ", "));
}

std::string print(const TensorType& type) {
  std::string text = std::string(name(type.dtype)) + print(type.shape);
  if (!type.strides.empty()) text += " strides " + print(type.strides);
  return text;
}

std::string print(const Graph& graph) {
  std::string text = print_header(graph);
  for (const Node& node : graph.nodes) {
    if (!is_input(node)) text += fmt::format("  {} = {}\n", node.name, print_call(graph, node));
  }
  std::vector<std::string> outputs;
  for (const Output& output : graph.outputs) {
    const std::string& value = graph[output.value].name;
    outputs.push_back(output.name == value ? value : value + " as " + output.name);
  }
  if (!outputs.empty()) text += fmt::format("  return {}\n", fmt::join(outputs, ", "));
  return text + "}\n";
}

}  // namespace epifuse::ir
