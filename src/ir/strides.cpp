// Declares strides of inputs.
#include "ir/strides.h"

#include <fmt/format.h>

#include <optional>
#include <set>
#include <string>

namespace epifuse::ir {
namespace {

// Symbols of sizes, and names of values for good measure.
std::set<std::string> names_of(const Graph& graph) {
  const std::vector<std::string> symbols = size_symbols(graph);
  std::set<std::string> names(symbols.begin(), symbols.end());
  for (const Node& node : graph.nodes) names.insert(node.name);
  return names;
}

}  // namespace

std::vector<Stride> strides_of(const Shape& declared) {
  std::vector<Stride> strides;
  for (const Dim& dim : declared) {
    const std::optional<std::int64_t> number = dim.constant();
    strides.push_back(number == 0 ? Stride::zero : number == 1 ? Stride::one : Stride::any);
  }
  return strides;
}

Graph with_strides(Graph graph, std::span<const std::vector<Stride>> inputs) {
  const std::set<std::string> taken = names_of(graph);
  std::size_t input = 0;
  for (Node& node : graph.nodes) {
    if (node.op != Op::input) continue;
    const std::vector<Stride>& strides = inputs[input];
    node.type.strides.clear();
    for (std::size_t d = 0; d < strides.size(); ++d) {
      if (strides[d] == Stride::any) {
        std::string symbol = fmt::format("stride{}_{}", input, d);
        while (taken.contains(symbol)) symbol += '_';
        node.type.strides.emplace_back(std::string_view(symbol));
      } else {
        node.type.strides.emplace_back(strides[d] == Stride::one ? 1 : 0);
      }
    }
    ++input;
  }
  return graph;
}

}  // namespace epifuse::ir
