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

}  // namespace

ir::Graph narrow_functions(const ir::Graph& graph) {
  ir::Graph narrowed = graph;
  const std::vector<bool> wide = read_wide(graph);
  for (std::size_t id = 0; id < narrowed.nodes.size(); ++id) {
    Node& node = narrowed.nodes[id];
    const auto row = std::ranges::find(ir::narrow_ops(), node.op, &ir::NarrowOp::op);
    if (row == ir::narrow_ops().end()) continue;
    if (keeps_8_bits(node.type.dtype) || !wide[id]) node.op = row->narrow;
  }
  return narrowed;
}

}  // namespace epifuse::passes
