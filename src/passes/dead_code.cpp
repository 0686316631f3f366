// dead_code: drops what no output needs.
#include <utility>

#include "passes/pipeline.h"

namespace epifuse::passes {
namespace {

// Which values an output needs, or the signature has: inputs and scalars stay.
std::vector<bool> find_live(const ir::Graph& graph) {
  std::vector<bool> live(graph.nodes.size(), false);
  for (const ir::Output& output : graph.outputs)
    live[static_cast<std::size_t>(output.value)] = true;
  for (std::size_t id = graph.nodes.size(); id-- > 0;) {
    const ir::Node& node = graph.nodes[id];
    if (node.op == ir::Op::input || node.op == ir::Op::scalar) live[id] = true;
    if (!live[id]) continue;
    for (const ir::ValueId arg : node.args) live[static_cast<std::size_t>(arg)] = true;
  }
  return live;
}

}  // namespace

// {x = f(..), without users} = {}
ir::Graph dead_code(const ir::Graph& graph) {
  const std::vector<bool> live = find_live(graph);
  ir::Graph result{graph.name, {}, graph.outputs};
  std::vector<ir::ValueId> moved(graph.nodes.size(), -1);
  for (std::size_t id = 0; id < graph.nodes.size(); ++id) {
    if (!live[id]) continue;
    moved[id] = static_cast<ir::ValueId>(result.nodes.size());
    result.nodes.push_back(graph.nodes[id]);
    for (ir::ValueId& arg : result.nodes.back().args) arg = moved[static_cast<std::size_t>(arg)];
  }
  for (ir::Output& output : result.outputs) {
    output.value = moved[static_cast<std::size_t>(output.value)];
  }
  return result;
}

}  // namespace epifuse::passes
