// narrow_functions: takes the narrow op where a result keeps at most 8 significant bits.
#include <algorithm>
#include <cstddef>
#include <vector>

#include "ir/op.h"
#include "passes/pipeline.h"

namespace epifuse::passes {
namespace {

using ir::Node;
using ir::Op;
using ir::ValueId;

bool keeps_8_bits(DType dtype) {
  return dtype == DType::bf16 || dtype == DType::e4m3 || dtype == DType::e5m2;
}

// Of each value, whether something reads it that keeps more bits. A factor's error is its
// product's, so one of a product that is rounded to few bits is read as such a product is.
std::vector<bool> read_wide(const ir::Graph& graph) {
  std::vector<bool> wide(graph.nodes.size());
  for (const ir::Output& output : graph.outputs)
    wide[static_cast<std::size_t>(output.value)] = true;
  for (std::size_t id = graph.nodes.size(); id-- > 0;) {
    const Node& node = graph.nodes[id];
    const bool keeps_few = keeps_8_bits(node.type.dtype);
    if (node.op == Op::cast ? keeps_few : node.op == Op::mul && (keeps_few || !wide[id])) continue;
    for (const ValueId arg : node.args) wide[static_cast<std::size_t>(arg)] = true;
  }
  return wide;
}

const ir::NarrowOp* row_of(Op op) {
  const auto row = std::ranges::find(ir::narrow_ops(), op, &ir::NarrowOp::op);
  return row == ir::narrow_ops().end() ? nullptr : &*row;
}

}  // namespace

ir::Graph narrow_functions(const ir::Graph& graph) {
  ir::Graph narrowed = graph;
  const std::vector<bool> wide = read_wide(graph);
  const auto stays = [&](std::size_t id) {
    return row_of(graph.nodes[id].op) != nullptr && !keeps_8_bits(graph.nodes[id].type.dtype) &&
           wide[id];
  };
  // A function that stays computes most of what another one of the same value needs.
  std::vector<bool> is_shared(graph.nodes.size());
  for (std::size_t id = 0; id < graph.nodes.size(); ++id) {
    if (stays(id)) is_shared[static_cast<std::size_t>(graph.nodes[id].args[0])] = true;
  }
  for (Node& node : narrowed.nodes) {
    const ir::NarrowOp* row = row_of(node.op);
    if (row != nullptr && !is_shared[static_cast<std::size_t>(node.args[0])]) node.op = row->narrow;
  }
  return narrowed;
}

}  // namespace epifuse::passes
