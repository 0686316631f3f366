// What planning asks of a graph again and again, computed once.
#include "plan/facts.h"

#include <algorithm>

#include "ir/views.h"

namespace epifuse::plan {

using ir::Graph;
using ir::Node;
using ir::Op;
using ir::ValueId;

ValueId loaded_value(const Graph& graph, ValueId id) {
  while (graph[id].op == Op::broadcast) id = graph[id].args[0];
  const ValueId storage = ir::storage(graph, id);
  const bool is_number = graph[storage].op == Op::scalar || graph[storage].op == Op::constant;
  return is_number ? storage : id;
}

bool is_computed(Op op) { return !ir::is_source(op) && !ir::is_view(op); }

bool widens(const Graph& graph, ValueId id) {
  const Node& node = graph[id];
  if (node.op != Op::cast) return false;
  return size_bytes(node.type.dtype) > size_bytes(graph[node.args[0]].type.dtype);
}

const ir::Shape& iteration_shape(const Graph& graph, ValueId id) {
  const Node& node = graph[id];
  const bool is_operand = ir::is_reduction(node.op) || ir::is_block(node.op) ||
                          ir::is_join(node.op) || node.op == Op::put_rows;
  return is_operand ? graph[node.args[0]].type.shape : node.type.shape;
}

const ir::Shape& Facts::space(ValueId id) const {
  const Gate* gate = gates.of(id);
  return gate != nullptr ? graph[gate->first].type.shape : iteration_shape(graph, id);
}

Facts::Facts(const Graph& graph_, bool pairs, const targets::StepLimits& limits_)
    : graph(graph_),
      limits(limits_),
      is_live(graph.nodes.size()),
      is_output(graph.nodes.size()),
      needs_memory(graph.nodes.size()),
      operands(graph.nodes.size()),
      readers(graph.nodes.size()),
      dependents(graph.nodes.size()) {
  const auto size = static_cast<ValueId>(graph.nodes.size());
  for (ValueId id = 0; id < size; ++id) {
    storage.push_back(ir::is_view(graph[id].op) ? storage[index(graph[id].args[0])] : id);
  }
  find_live();
  if (pairs) gates = Gates(graph, is_live);
  for (ValueId id = 0; id < size; ++id) {
    if (is_live[index(id)] && computed(id)) find_reads(id);
  }
}

void Facts::find_live() {
  for (const ir::Output& output : graph.outputs) {
    is_live[index(output.value)] = true;
    is_output[index(output.value)] = true;
    needs_memory[index(storage[index(output.value)])] = true;
  }
  for (auto id = static_cast<ValueId>(graph.nodes.size()); id-- > 0;) {
    if (!is_live[index(id)]) continue;
    for (ValueId arg : graph[id].args) is_live[index(arg)] = true;
  }
}

void Facts::find_reads(ValueId id) {
  const Node& node = graph[id];
  const bool through_memory = ir::is_matmul(node.op);
  for (ValueId arg : node.args) {
    if (is_integer(graph[arg].type.dtype)) continue;
    const ValueId loaded = through_memory ? arg : loaded_value(graph, arg);
    const ValueId origin = storage[index(loaded)];
    if (computed(origin)) {
      std::vector<ValueId>& of_origin = dependents[index(origin)];
      if (of_origin.empty() || of_origin.back() != id) of_origin.push_back(id);
      const bool is_in_registers = loaded == origin || producer(loaded) == origin;
      if (through_memory || !is_in_registers) needs_memory[index(origin)] = true;
    }
    if (through_memory || graph[loaded].op == Op::constant || reads(id, loaded)) continue;
    operands[index(id)].push_back(loaded);
    readers[index(loaded)].push_back(id);
    std::vector<ValueId>& of_producer = readers[index(producer(loaded))];
    if (of_producer.empty() || of_producer.back() != id) of_producer.push_back(id);
  }
}

bool Facts::reads(ValueId reader, ValueId value) const {
  const std::vector<ValueId>& all = operands[index(reader)];
  return std::any_of(all.begin(), all.end(), [&](ValueId operand) {
    return operand == value || producer(operand) == value;
  });
}

}  // namespace epifuse::plan
