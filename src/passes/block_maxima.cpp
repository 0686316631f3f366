// block_maxima: makes the maxima of columns that were split into blocks of 128 the op of that name.
//
//   r = reshape x [.., B, 128], m = row_max r, d = sub r, m, y = reshape d [.., 128 B]
//     is d = sub x, block_max x
//
// where more work may be between them: what has the split shape, or one value for each block, in
// [.., B, 1] or [.., B], is computed in the shape of x. What a kernel stores of it keeps the name.
// No kernel stores a bool of a block: who reads one as it was computes it of what is stored.
#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "passes/pipeline.h"
#include "passes/rewriter.h"

namespace epifuse::passes {
namespace {

using ir::Node;
using ir::Op;
using ir::Shape;
using ir::ValueId;

// Whether a reshape does nothing but split the columns into blocks, and maybe the rows.
bool splits_columns(const Shape& from, const Shape& to) {
  return from.size() >= 2 && to.size() >= 3 && to.back().is(ir::kBlockColumns) &&
         from.back() == to[to.size() - 2] * to.back();
}

// What a value has of blocks: all their elements, or one value for each, with or without a dim of
// 1 behind.
enum class Has : std::uint8_t { elements, one, one_without_dim };

// The same numbers, with a dim of 1 behind.
bool adds_dim(const Shape& from, const Shape& to) {
  return to.size() == from.size() + 1 && to.back().is(1) &&
         std::equal(from.begin(), from.end(), to.begin());
}

class BlockFinder {
 public:
  explicit BlockFinder(const ir::Graph& graph)
      : graph_(graph), whole_(graph.nodes.size(), -1), has_(graph.nodes.size()), rewriter_(graph) {}

  ir::Graph run() {
    for (std::size_t id = 0; id < graph_.nodes.size(); ++id) {
      const Node& node = graph_.nodes[id];
      has_[id] = has(node);
      whole_[id] = whole(node, has_[id]);
      const Node moved = rewriter_.moved(node);
      const bool is_kept_bool = node.type.dtype == DType::boolean && has_[id] != Has::elements;
      const bool stays = whole_[id] < 0 || node.op == Op::reshape || is_kept_bool;
      rewriter_.keep(stays ? moved : split(node, whole_[id], has_[id]));
    }
    return rewriter_.finish();
  }

 private:
  // Of a node that has a whole.
  Has has(const Node& node) const {
    if (node.op == Op::row_max) return Has::one;
    if (node.op == Op::reshape) {
      const Shape& from = graph_[node.args[0]].type.shape;
      if (adds_dim(from, node.type.shape)) return Has::one;
      return adds_dim(node.type.shape, from) ? Has::one_without_dim : Has::elements;
    }
    if (!ir::is_elementwise(node.op)) return Has::elements;
    const auto is_other = [&](ValueId arg) {
      return whole_of(arg) >= 0 && has_of(arg) != Has::one;
    };
    const auto other = std::ranges::find_if(node.args, is_other);
    return other == node.args.end() ? Has::one : has_of(*other);
  }

  // The value in the shape that its columns had before; -1: it is not of split columns.
  ValueId whole(const Node& node, Has has) {
    if (node.op == Op::reshape) {
      const ValueId operand = node.args[0];
      const Has had = has_of(operand);
      const bool keeps =
          whole_of(operand) >= 0 && has != Has::elements && has != had && had != Has::elements;
      if (keeps) return whole_of(operand);
      if (!splits_columns(graph_[operand].type.shape, node.type.shape)) return -1;
      return rewriter_.moved(node).args[0];
    }
    if (node.op == Op::broadcast) {
      const ValueId operand = whole_of(node.args[0]);
      const bool fits = operand >= 0 && is_split(node.type.shape) &&
                        has_of(node.args[0]) != Has::one_without_dim &&
                        same_rows(graph_[node.args[0]].type.shape, node.type.shape);
      return fits ? operand : -1;
    }
    if (node.op != Op::row_max && !ir::is_elementwise(node.op)) return -1;
    const std::optional<std::vector<ValueId>> args = whole_operands(node);
    if (!args) return -1;
    Node on_whole = with_op(node, node.op == Op::row_max ? Op::block_max : node.op, *args);
    if (has != Has::elements) on_whole.name = rewriter_.fresh_name(node.name, "whole");
    on_whole.type.shape.clear();
    return rewriter_.add(std::move(on_whole));
  }

  // Those of one shape of blocks, and single numbers; a value of each column is none.
  std::optional<std::vector<ValueId>> whole_operands(const Node& node) const {
    std::vector<ValueId> args = rewriter_.moved(node).args;
    ValueId first = -1;  // the first operand that is of split columns
    for (std::size_t i = 0; i < args.size(); ++i) {
      const ValueId arg = node.args[i], as_whole = whole_of(arg);
      if (as_whole < 0 && !graph_[arg].type.shape.empty()) return std::nullopt;
      if (as_whole < 0) continue;
      args[i] = as_whole;
      if (first < 0) first = arg;
      const bool fits = same_rows(graph_[first].type.shape, graph_[arg].type.shape) &&
                        rewriter_[whole_of(first)].type.shape == rewriter_[as_whole].type.shape;
      if (!fits) return std::nullopt;
    }
    if (first < 0) return std::nullopt;
    if (node.op == Op::row_max && has_of(first) != Has::elements) return std::nullopt;
    return args;
  }

  static bool same_rows(const Shape& a, const Shape& b) {
    return a.size() == b.size() && std::equal(a.begin(), a.end() - 1, b.begin());
  }
  ValueId whole_of(ValueId id) const { return whole_[static_cast<std::size_t>(id)]; }
  Has has_of(ValueId id) const { return has_[static_cast<std::size_t>(id)]; }

  static bool is_split(const Shape& shape) { return shape.back().is(ir::kBlockColumns); }

  // The value itself, of what it is in the shape of the whole.
  Node split(const Node& node, ValueId whole, Has has) {
    if (has != Has::elements) {
      whole = rewriter_.add({.op = Op::block_first, .name = node.name, .args = {whole}});
    }
    Node view = with_op(node, Op::reshape, {whole});
    if (rewriter_[whole].name == node.name) view.name = rewriter_.fresh_name(node.name, "view");
    return view;
  }

  const ir::Graph& graph_;
  std::vector<ValueId> whole_;  // by id in the source: a value of the result
  std::vector<Has> has_;        // by id in the source, where there is a whole
  Rewriter rewriter_;
};

bool has_block_maximum(const ir::Graph& graph) {
  return std::ranges::any_of(graph.nodes, [&](const Node& node) {
    return node.op == Op::row_max && graph[node.args[0]].type.shape.back().is(ir::kBlockColumns);
  });
}

}  // namespace

ir::Graph block_maxima(const ir::Graph& graph) {
  return has_block_maximum(graph) ? BlockFinder(graph).run() : graph;
}

}  // namespace epifuse::passes
