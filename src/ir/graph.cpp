// Growing a graph and walking over it.
#include "ir/graph.h"

#include <fmt/core.h>

#include <algorithm>
#include <set>
#include <utility>

#include "epifuse/error.h"
#include "ir/text.h"

namespace epifuse::ir {
namespace {

bool is_taken(const Graph& graph, std::string_view name) {
  return std::any_of(graph.nodes.begin(), graph.nodes.end(),
                     [name](const Node& node) { return node.name == name; });
}

// `name`, or the first of name_2, name_3, .. that is free.
std::string unique_name(const Graph& graph, const std::string& name) {
  std::string candidate = name;
  for (int i = 2; is_taken(graph, candidate); ++i) candidate = fmt::format("{}_{}", name, i);
  return candidate;
}

}  // namespace

ValueId append(Graph& graph, Node node) {
  node.type = infer_type(graph, node);
  const auto id = static_cast<ValueId>(graph.nodes.size());
  node.name = unique_name(graph, node.name.empty() ? fmt::format("t{}", id) : sanitize(node.name));
  graph.nodes.push_back(std::move(node));
  return id;
}

std::vector<std::string> size_symbols(const Graph& graph) {
  std::set<std::string> symbols;
  for (const Node& node : graph.nodes) {
    for (const Dim& dim : node.type.shape) {
      for (std::string& symbol : dim.symbols()) symbols.insert(std::move(symbol));
    }
  }
  return {symbols.begin(), symbols.end()};
}

std::vector<std::vector<ValueId>> users(const Graph& graph) {
  std::vector<std::vector<ValueId>> result(graph.nodes.size());
  for (ValueId id = 0; id < static_cast<ValueId>(graph.nodes.size()); ++id) {
    for (ValueId arg : graph[id].args) {
      std::vector<ValueId>& of_arg = result[static_cast<std::size_t>(arg)];
      if (of_arg.empty() || of_arg.back() != id) of_arg.push_back(id);
    }
  }
  return result;
}

Shape broadcast_shapes(const Shape& a, const Shape& b) {
  const Shape& longer = a.size() >= b.size() ? a : b;
  const Shape& shorter = a.size() >= b.size() ? b : a;
  Shape result = longer;
  const std::size_t lead = longer.size() - shorter.size();
  for (std::size_t d = 0; d < shorter.size(); ++d) {
    Dim& dim = result[lead + d];
    if (dim == shorter[d] || shorter[d].is(1)) continue;
    if (!dim.is(1)) {
      throw GraphError(fmt::format("shapes {} and {} do not broadcast: {} against {}", print(a),
                                   print(b), a[a.size() - shorter.size() + d].str(),
                                   b[b.size() - shorter.size() + d].str()));
    }
    dim = shorter[d];
  }
  return result;
}

}  // namespace epifuse::ir
