// block_maxima: makes the maxima of columns that were split into blocks of 128 the op of that name.
//
//   r = reshape x [.., B, 128], m = row_max r, d = sub r, m, y = reshape d [.., 128 B]
//     is d = sub x, block_max x
//
// where more work may be between them: what has the split shape, or one value for each block, in
// [.., B, 1] or [.., B], is computed in the shape of x. What a kernel stores of it keeps the name.
// With rows that were split too, the maximum of a block's 128 rows is that of a square:
//
//   r = reshape x [.., A, 128, B, 128], m = row_max r, c = col_max (reshape m [.., A, 128, B])
//     is block_max x [128, 128], in [.., A, 1, B], [.., A, 1, B, 1] or [.., A, B]
//
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

// What a value has of blocks: all their elements, or one value for each, with or without a dim of 1
// behind. Or one for each square, with 1 for its rows and its columns, for its rows, or neither. Of
// operands an elementwise op has the first of these.
enum class Has : std::uint8_t {
  elements,               // [.., R, B, 128]; of squares R is [A, 128]
  one,                    // [.., R, B, 1]
  one_without_dim,        // [.., R, B]
  of_square,              // [.., A, 1, B, 1]
  of_square_rows,         // [.., A, 1, B]
  of_square_without_dims  // [.., A, B]
};

// The same numbers, with a dim of 1 behind.
bool adds_dim(const Shape& from, const Shape& to) {
  return to.size() == from.size() + 1 && to.back().is(1) &&
         std::equal(from.begin(), from.end(), to.begin());
}

bool is_of_square(Has has) { return has >= Has::of_square; }

// One value for each square, in the shape that has no dims of 1.
Shape without_dims(Shape shape, Has has) {
  if (has == Has::of_square) shape.pop_back();
  if (has != Has::of_square_without_dims) shape.erase(shape.end() - 2);
  return shape;
}

// What a reshape of one value for each block has, if it has that too.
std::optional<Has> reshaped(Has has, const Shape& from, const Shape& to) {
  if (has == Has::one && adds_dim(to, from)) return Has::one_without_dim;
  if (has == Has::one_without_dim && adds_dim(from, to)) return Has::one;
  if (!is_of_square(has)) return std::nullopt;
  for (const Has form : {Has::of_square, Has::of_square_rows, Has::of_square_without_dims}) {
    const std::size_t dims = form == Has::of_square ? 2 : form == Has::of_square_rows ? 1 : 0;
    if (to.size() < dims + 2 || (dims == 2 && !to.back().is(1))) continue;
    if (dims > 0 && !to[to.size() - dims - 1].is(1)) continue;
    if (without_dims(to, form) == without_dims(from, has)) return form;
  }
  return std::nullopt;
}

// Whether values of the same blocks meet in elementwise work: but for what is one for a whole block
// their dims are equal.
bool meet(const Shape& a, Has has_a, const Shape& b, Has has_b) {
  const auto has_columns = [](Has has) { return has <= Has::one || has == Has::of_square; };
  if (a.size() != b.size() || has_columns(has_a) != has_columns(has_b)) return false;
  const bool is_alone = has_a == Has::of_square_without_dims;
  if (is_alone != (has_b == Has::of_square_without_dims)) return false;
  const std::size_t columns = has_columns(has_a) ? 1 : 0;
  const bool any_square = is_of_square(has_a) || is_of_square(has_b);
  for (std::size_t d = columns; d < a.size(); ++d) {  // from behind
    if (any_square && !is_alone && d == columns + 1) continue;
    if (a[a.size() - 1 - d] != b[b.size() - 1 - d]) return false;
  }
  return true;
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
    if (node.op == Op::col_max) return Has::of_square_rows;
    if (node.op == Op::reshape) return reshaped(node).value_or(Has::elements);
    if (!ir::is_elementwise(node.op)) return Has::elements;
    std::optional<Has> least;
    for (const ValueId arg : node.args) {
      if (whole_of(arg) >= 0) least = std::min(least.value_or(has_of(arg)), has_of(arg));
    }
    return least.value_or(Has::elements);
  }

  std::optional<Has> reshaped(const Node& reshape) const {
    const ValueId operand = reshape.args[0];
    if (whole_of(operand) < 0) return std::nullopt;
    return passes::reshaped(has_of(operand), graph_[operand].type.shape, reshape.type.shape);
  }

  // The value in the shape that its columns had before; -1: it is not of split columns.
  ValueId whole(const Node& node, Has has) {
    if (node.op == Op::reshape) {
      const ValueId operand = node.args[0];
      if (has != Has::elements) return whole_of(operand);
      if (!splits_columns(graph_[operand].type.shape, node.type.shape)) return -1;
      return rewriter_.moved(node).args[0];
    }
    if (node.op == Op::broadcast) {
      const ValueId operand = whole_of(node.args[0]);
      const bool fits = operand >= 0 && is_split(node.type.shape) &&
                        meet(graph_[node.args[0]].type.shape, has_of(node.args[0]), node.type.shape,
                             Has::elements);
      return fits ? operand : -1;
    }
    if (node.op == Op::col_max) return maximum_of_squares(node);
    if (node.op != Op::row_max && !ir::is_elementwise(node.op)) return -1;
    const std::optional<std::vector<ValueId>> args = whole_operands(node);
    if (!args) return -1;
    Node on_whole = with_op(node, node.op == Op::row_max ? Op::block_max : node.op, *args);
    if (has != Has::elements) on_whole.name = rewriter_.fresh_name(node.name, "whole");
    on_whole.type.shape.clear();
    return rewriter_.add(std::move(on_whole));
  }

  // Of 128 rows of maxima of blocks.
  ValueId maximum_of_squares(const Node& node) {
    const ValueId operand = node.args[0], maxima = whole_of(operand);
    if (maxima < 0 || has_of(operand) != Has::one_without_dim) return -1;
    const Shape& shape = graph_[operand].type.shape;
    const Node of_rows = rewriter_[maxima];
    if (of_rows.op != Op::block_max || of_rows.block_rows != 1) return -1;
    const Dim& rows = of_rows.type.shape[of_rows.type.shape.size() - 2];
    const bool has_squares = shape[shape.size() - 2].is(ir::kSquareRows) &&
                             rows.divide(ir::kSquareRows) &&
                             of_rows.type.shape.back().divide(ir::kBlockColumns);
    if (!has_squares) return -1;
    return rewriter_.add({.op = Op::block_max,
                          .name = rewriter_.fresh_name(node.name, "whole"),
                          .args = of_rows.args,
                          .block_rows = ir::kSquareRows});
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
      const bool fits =
          meet(graph_[first].type.shape, has_of(first), graph_[arg].type.shape, has_of(arg)) &&
          rewriter_[whole_of(first)].type.shape == rewriter_[as_whole].type.shape;
      if (!fits) return std::nullopt;
    }
    if (first < 0) return std::nullopt;
    if (node.op == Op::row_max && has_of(first) != Has::elements) return std::nullopt;
    return args;
  }

  ValueId whole_of(ValueId id) const { return whole_[static_cast<std::size_t>(id)]; }
  Has has_of(ValueId id) const { return has_[static_cast<std::size_t>(id)]; }

  static bool is_split(const Shape& shape) { return shape.back().is(ir::kBlockColumns); }

  // The value itself, of what it is in the shape of the whole.
  Node split(const Node& node, ValueId whole, Has has) {
    if (has != Has::elements) {
      whole = rewriter_.add({.op = Op::block_first,
                             .name = node.name,
                             .args = {whole},
                             .block_rows = is_of_square(has) ? ir::kSquareRows : 1});
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
