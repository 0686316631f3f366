// sink_reshapes: moves reshapes of matmul results behind the elementwise work on them.
#include <algorithm>
#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/check.h"
#include "ir/text.h"
#include "ir/views.h"
#include "passes/pipeline.h"
#include "passes/rewrites.h"

namespace epifuse::passes {
namespace {

using ir::Node;
using ir::Op;
using ir::Shape;
using ir::ValueId;

// How many of the last dims of `to` a reshape splits the last dim of `from` into, or leaves it as;
// none where it does neither.
std::size_t num_column_dims(const Shape& from, const Shape& to) {
  if (from == to || from.empty() || from.back().is(0)) return 0;
  Dim columns{1};
  for (std::size_t count = 1; count <= to.size(); ++count) {
    columns = columns * to[to.size() - count];
    if (columns == from.back()) return count;
  }
  return 0;
}

// Whether reshaping `from` to `to` only splits or merges dims before the last one.
bool keeps_last_dim(const Shape& from, const Shape& to) { return num_column_dims(from, to) == 1; }

bool is_row_reduction(Op op) { return op == Op::row_sum || op == Op::row_max; }

// `lead` without its last dim, then `last`.
Shape with_last(const Shape& lead, const Dim& last) {
  Shape shape = lead;
  shape.back() = last;
  return shape;
}

std::vector<ir::SliceRange> whole(const Shape& shape) {
  std::vector<ir::SliceRange> ranges;
  for (const Dim& dim : shape) ranges.push_back({Dim{}, dim, 1});
  return ranges;
}

bool cuts_columns_only(const Node& slice, const Shape& shape) {
  const std::vector<ir::SliceRange> all = whole(shape);
  return std::equal(all.begin(), all.end() - 1, slice.ranges.begin());
}

// The shape that an operand of this shape takes when the result goes from shape `to` back to
// `from`: the same elements meet. Empty when no reshape can do that.
std::optional<Shape> unsplit(const Shape& operand, const Shape& from, const Shape& to) {
  if (operand == to) return from;
  if (operand.empty()) return operand;
  Shape aligned(to.size() - operand.size(), Dim{1});
  aligned.insert(aligned.end(), operand.begin(), operand.end());
  const auto columns = aligned.end() - static_cast<std::ptrdiff_t>(num_column_dims(from, to));
  const auto is_one = [](const Dim& dim) { return dim.is(1); };
  const bool has_columns = std::equal(columns, aligned.end(), to.end() - (aligned.end() - columns));
  if (!has_columns && !std::all_of(columns, aligned.end(), is_one)) return std::nullopt;
  const Dim last = has_columns ? from.back() : Dim{1};
  if (std::all_of(aligned.begin(), columns, is_one)) return Shape{last};
  if (std::equal(aligned.begin(), columns, to.begin())) return with_last(from, last);
  return std::nullopt;
}

class ReshapeSinker {
 public:
  explicit ReshapeSinker(const ir::Graph& graph, bool with_operands = false)
      : graph_(graph), rewriter_(graph), is_framework_(with_operands) {
    if (with_operands) find_shapes_of_products();
  }

  ir::Graph run() {
    for (const Node& source : graph_.nodes) {
      Node node = rewriter_.moved(source);
      if (const auto composed = compose_shapes(rewriter_, node)) node = std::get<Node>(*composed);
      const Node sunk = sink(node).value_or(node);
      if (const auto same = drop_identity_shape(rewriter_, sunk)) {
        rewriter_.replace(std::get<ValueId>(*same));
      } else {
        rewriter_.keep(sunk);
      }
    }
    return rewriter_.finish();
  }

 private:
  // `node` as a reshape of the same work on what its operands are reshapes of.
  std::optional<Node> sink(const Node& node) {
    if (node.op == Op::slice) return sink_slice(node);
    if (node.op == Op::reshape) return sink_selection(node);
    if (!ir::is_elementwise(node.op) && !is_row_reduction(node.op)) return std::nullopt;
    for (const ValueId arg : node.args) {
      if (std::optional<Node> sunk = sink_past(node, arg)) return sunk;
    }
    return sink_operand(node);
  }

  // What products have before they are reshaped, by the shape that they get; where several have
  // different ones, none.
  void find_shapes_of_products() {
    std::vector<bool> is_product(graph_.nodes.size());
    for (std::size_t id = 0; id < graph_.nodes.size(); ++id) {
      const Node& node = graph_.nodes[id];
      const auto any = [&](ValueId arg) { return is_product[static_cast<std::size_t>(arg)]; };
      const bool is_from_product = std::ranges::any_of(node.args, any);
      is_product[id] = ir::is_matmul(node.op) || (ir::is_elementwise(node.op) && is_from_product);
      if (node.op != Op::reshape || !is_from_product) continue;
      const Shape& from = graph_[node.args[0]].type.shape;
      if (!keeps_last_dim(from, node.type.shape)) continue;
      const auto [known, is_new] = shape_of_product_.try_emplace(ir::print(node.type.shape), from);
      if (!is_new && known->second != from) known->second.clear();
    }
  }

  // Work that needs no product, in the shape that a product has which is reshaped to its shape: so
  // that the work on both may be one kernel's.
  std::optional<Node> sink_operand(const Node& node) {
    if (shape_of_product_.empty() || !ir::is_elementwise(node.op)) return std::nullopt;
    const auto any = [this](ValueId arg) { return is_from_matmul(arg); };
    if (std::ranges::any_of(node.args, any)) return std::nullopt;
    const Shape to = node.type.shape;
    const auto known = shape_of_product_.find(ir::print(to));
    if (known == shape_of_product_.end() || known->second.empty()) return std::nullopt;
    return sink_to(node, known->second, to, known->second);
  }

  // One index of one of the two dims that a reshape splits columns into, as a slice of columns:
  //   x [.., P Q] -> [.., P, Q], [.., p, :] -> [.., Q] is x [.., p Q : (p + 1) Q], [.., :, q] is
  //   x [.., q :: Q]
  std::optional<Node> sink_selection(const Node& node) {
    const Node selection = rewriter_[node.args[0]];
    if (selection.op != Op::slice) return std::nullopt;
    const Node split = rewriter_[selection.args[0]];
    if (split.op != Op::reshape) return std::nullopt;
    const ValueId operand = split.args[0];
    if (!is_from_matmul(operand)) return std::nullopt;
    const Shape& from = rewriter_[operand].type.shape;
    const Shape& to = split.type.shape;
    const std::size_t rank = to.size();
    if (rank < 2 || from.empty() || to[rank - 2] * to[rank - 1] != from.back()) return std::nullopt;
    const std::vector<ir::SliceRange> all = whole(to);
    if (!std::equal(all.begin(), all.end() - 2, selection.ranges.begin())) return std::nullopt;
    const std::optional<ir::SliceRange> columns =
        selected(selection.ranges[rank - 2], selection.ranges[rank - 1], to);
    if (!columns) return std::nullopt;
    Node slice{.op = Op::slice, .args = {operand}, .ranges = whole(from)};
    slice.ranges.back() = *columns;
    slice.name = rewriter_.fresh_name(selection.name, "columns");
    return with_op(node, Op::reshape, {rewriter_.add(std::move(slice))});
  }

  static std::optional<ir::SliceRange> selected(const ir::SliceRange& outer,
                                                const ir::SliceRange& inner, const Shape& to) {
    const Dim& p = to[to.size() - 2];
    const Dim& q = to.back();
    const ir::SliceRange all_p{Dim{}, p, 1}, all_q{Dim{}, q, 1};
    if (inner == all_q && outer.step == 1 && (outer.stop - outer.start).is(1)) {
      return ir::SliceRange{outer.start * q, outer.stop * q, 1};
    }
    const std::optional<std::int64_t> step = q.constant();
    if (outer == all_p && step && *step > 0 && inner.step == 1 &&
        (inner.stop - inner.start).is(1)) {
      return ir::SliceRange{inner.start, p * q, *step};
    }
    return std::nullopt;
  }

  // Columns of a reshape as a reshape of the columns.
  std::optional<Node> sink_slice(const Node& node) {
    const ValueId view = node.args[0];
    if (rewriter_[view].op != Op::reshape || !is_from_matmul(rewriter_[view].args[0])) {
      return std::nullopt;
    }
    const ValueId operand = rewriter_[view].args[0];
    const Shape from = rewriter_[operand].type.shape, to = rewriter_[view].type.shape;
    if (!keeps_last_dim(from, to) || !cuts_columns_only(node, to)) return std::nullopt;
    Node inner = node;
    inner.args = {operand};
    inner.ranges = whole(from);
    inner.ranges.back() = node.ranges.back();
    Node outer = with_op(node, Op::reshape, {rewriter_.add(std::move(inner))});
    outer.name = rewriter_.fresh_name(node.name, "view");
    return outer;
  }

  // The same, taking the shape before the reshape `view`, one of the operands.
  std::optional<Node> sink_past(const Node& node, ValueId view) {
    if (rewriter_[view].op != Op::reshape || !is_from_matmul(rewriter_[view].args[0])) {
      return std::nullopt;
    }
    const Shape from = rewriter_[rewriter_[view].args[0]].type.shape;
    const Shape to = rewriter_[view].type.shape;
    if (!is_row_reduction(node.op)) {
      if (num_column_dims(from, to) == 0 || node.type.shape != to) return std::nullopt;
      return sink_to(node, from, to, from);
    }
    if (!keeps_last_dim(from, to) || from.size() < 2) return std::nullopt;
    if (node.type.shape != with_last(to, Dim{1})) return std::nullopt;
    return sink_to(node, from, to, with_last(from, Dim{1}));
  }

  std::optional<Node> sink_to(const Node& node, const Shape& from, const Shape& to,
                              const Shape& inner_shape) {
    std::vector<Shape> shapes;
    for (const ValueId arg : node.args) {
      const std::optional<Shape> shape = unsplit(rewriter_[arg].type.shape, from, to);
      if (!shape || (is_framework_ && needs_copy(arg, *shape))) return std::nullopt;
      shapes.push_back(*shape);
    }
    return reshape_after(node, shapes, inner_shape);
  }

  // reshape(f(operands in these shapes)); f then has the shape `inner_shape`, and keeps its name:
  // it is what a kernel stores.
  Node reshape_after(const Node& node, const std::vector<Shape>& shapes, const Shape& inner_shape) {
    Node inner = node;
    for (std::size_t i = 0; i < shapes.size(); ++i) {
      inner.args[i] = reshaped(node.args[i], shapes[i]);
    }
    inner.type.shape.clear();
    const ValueId id = rewriter_.add(std::move(inner));
    EPIFUSE_CHECK(rewriter_[id].type.shape == inner_shape, "sunk op has another shape");
    Node view = with_op(node, Op::reshape, {id});
    view.name = rewriter_.fresh_name(node.name, "view");
    return view;
  }

  ValueId before_reshape(ValueId id) const {
    return rewriter_[id].op == Op::reshape ? rewriter_[id].args[0] : id;
  }

  // Whether an operand has this shape only as a copy, which no kernel of a framework makes.
  bool needs_copy(ValueId id, const Shape& shape) const {
    if (rewriter_[id].type.shape == shape) return false;
    const auto layout = ir::expected_layout(rewriter_.graph(), before_reshape(id));
    const Node view{.op = Op::reshape, .type = {rewriter_[id].type.dtype, shape, {}}};
    return !layout || !ir::through(view, *layout);
  }

  ValueId reshaped(ValueId id, const Shape& shape) {
    if (rewriter_[id].type.shape == shape) return id;
    id = before_reshape(id);
    if (rewriter_[id].type.shape == shape) return id;
    Node view{.op = Op::reshape, .args = {id}};
    view.name = rewriter_.fresh_name(rewriter_[id].name, "view");
    view.type.shape = shape;
    return rewriter_.add(std::move(view));
  }

  // Whether `id` is a matmul, or elementwise work on one or on columns of one. Answers are kept:
  // the graph only grows.
  bool is_from_matmul(ValueId id) {
    for (auto next = from_matmul_.size(); next <= static_cast<std::size_t>(id); ++next) {
      const auto at = static_cast<ValueId>(next);
      const Node& node = rewriter_[at];
      const auto any = [this](ValueId arg) { return from_matmul_[static_cast<std::size_t>(arg)]; };
      from_matmul_.push_back(
          ir::is_matmul(node.op) ||
          ((ir::is_elementwise(node.op) || ir::is_column_slice(rewriter_.graph(), at)) &&
           std::any_of(node.args.begin(), node.args.end(), any)));
    }
    return from_matmul_[static_cast<std::size_t>(id)];
  }

  const ir::Graph& graph_;
  Rewriter rewriter_;
  const bool is_framework_;
  std::vector<bool> from_matmul_;  // by ValueId of the graph being built
  std::map<std::string, Shape> shape_of_product_;
};

}  // namespace

// f(reshape(a), b, ..) = reshape(f(a, reshape(b), ..)), where a comes from a matmul and the reshape
// splits or merges dims before the last one, or splits that one, too; b is a full tensor, one value
// a row, a row vector or a single value. Columns of a reshape that keeps the last dim are a reshape
// of columns, a reshape of one is one, or none. So [B*S, N] results viewed as [B, S, N] fuse with
// [B, S, N] residuals, viewed as [B, S, H, D] with an [H, D] bias. One index of a dim that columns
// are split into is a slice of columns.
ir::Graph sink_reshapes(const ir::Graph& graph) { return ReshapeSinker(graph).run(); }

ir::Graph sink_reshapes_of_operands(const ir::Graph& graph) {
  return ReshapeSinker(graph, true).run();
}

}  // namespace epifuse::passes
