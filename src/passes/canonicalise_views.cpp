// Rewrites of views, and of views as operands of matmul and of elementwise ops.
#include <algorithm>
#include <cstddef>

#include "passes/rewrites.h"

namespace epifuse::passes {
namespace {

using ir::Node;
using ir::Op;
using ir::ValueId;
using Result = std::optional<Replacement>;

// transpose(x, 0, 1, 2, ..) = x
Result drop_identity_transpose(Rewriter&, const Node& node) {
  if (node.op != Op::transpose) return std::nullopt;
  if (!std::is_sorted(node.permutation.begin(), node.permutation.end())) return std::nullopt;
  return node.args[0];
}

// x[0:size, ..] = x
Result drop_identity_slice(Rewriter& rewriter, const Node& node) {
  if (node.op != Op::slice) return std::nullopt;
  const ir::Shape& shape = rewriter[node.args[0]].type.shape;
  for (std::size_t d = 0; d < shape.size(); ++d) {
    if (node.ranges[d] != ir::SliceRange{Dim{}, shape[d], 1}) return std::nullopt;
  }
  return node.args[0];
}

// transpose(transpose(x, p), q) = transpose(x, p[q])
Result compose_transposes(Rewriter& rewriter, const Node& node) {
  if (node.op != Op::transpose) return std::nullopt;
  const Node& inner = rewriter[node.args[0]];
  if (inner.op != Op::transpose) return std::nullopt;
  Node composed = node;
  composed.args = inner.args;
  for (int& dim : composed.permutation) dim = inner.permutation[static_cast<std::size_t>(dim)];
  return composed;
}

// The range of x that range `outer` of range `inner` of x is, when one range can say it. `size` is
// the number of elements of `inner`.
std::optional<ir::SliceRange> compose(const ir::SliceRange& inner, const ir::SliceRange& outer,
                                      const Dim& size) {
  constexpr std::int64_t kMaxStep = std::int64_t{1} << 31;  // products stay in int64
  if (inner.step >= kMaxStep || outer.step >= kMaxStep) return std::nullopt;
  const std::int64_t step = inner.step * outer.step;
  if (inner.step == 1)
    return ir::SliceRange{inner.start + outer.start, inner.start + outer.stop, step};
  if (outer.start.is(0) && outer.stop == size) return ir::SliceRange{inner.start, inner.stop, step};
  // Elsewhere the last element that `outer` reaches must be known to exist.
  const auto start = outer.start.constant(), stop = outer.stop.constant();
  if (!start || !stop || *start >= *stop) return std::nullopt;
  return ir::SliceRange{inner.start + *start * inner.step,
                        inner.start + (*stop - 1) * inner.step + 1, step};
}

// x[a:b:s][c:d:t] = x[a+c*s : a+(d-1)*s+1 : s*t]
Result compose_slices(Rewriter& rewriter, const Node& node) {
  if (node.op != Op::slice) return std::nullopt;
  const Node& inner = rewriter[node.args[0]];
  if (inner.op != Op::slice) return std::nullopt;
  Node composed = node;
  composed.args = inner.args;
  for (std::size_t d = 0; d < node.ranges.size(); ++d) {
    const auto range = compose(inner.ranges[d], node.ranges[d], inner.type.shape[d]);
    if (!range) return std::nullopt;
    composed.ranges[d] = *range;
  }
  return composed;
}

// The value that `id` repeats, or puts dims of size 1 in front of; -1 when it is no such view.
ValueId repeated_value(const ir::Graph& graph, ValueId id) {
  const Node& node = graph[id];
  if (node.op == Op::broadcast) return node.args[0];
  if (node.op != Op::reshape) return -1;
  const ir::Shape& from = graph[node.args[0]].type.shape;
  const ir::Shape& to = node.type.shape;
  if (from.size() > to.size()) return -1;
  const auto num_new = static_cast<std::ptrdiff_t>(to.size() - from.size());
  if (!std::equal(from.begin(), from.end(), to.begin() + num_new)) return -1;
  const auto is_one = [](const Dim& dim) { return dim.is(1); };
  return std::all_of(to.begin(), to.begin() + num_new, is_one) ? node.args[0] : -1;
}

// broadcast(reshape(x, 1, .., shape of x), t) = broadcast(x, t)
Result broadcast_ignores_leading_ones(Rewriter& rewriter, const Node& node) {
  if (node.op != Op::broadcast) return std::nullopt;
  const ValueId inner = repeated_value(rewriter.graph(), node.args[0]);
  if (inner < 0) return std::nullopt;
  return with_op(node, Op::broadcast, {inner});
}

// f(broadcast(x), y) = f(x, y) where y, or what else f takes, spans the result anyway
Result drop_operand_broadcast(Rewriter& rewriter, const Node& node) {
  if (!ir::is_elementwise(node.op) || node.args.size() < 2) return std::nullopt;
  for (std::size_t i = 0; i < node.args.size(); ++i) {
    const ValueId inner = repeated_value(rewriter.graph(), node.args[i]);
    if (inner < 0) continue;
    Node candidate = node;
    candidate.args[i] = inner;
    if (same_type(ir::infer_type(rewriter.graph(), candidate), node.type)) return candidate;
  }
  return std::nullopt;
}

// matmul(transpose(x, .., j, i), y) = matmul(transpose(x, .., i, j)^T, y) for i < j, so a mere swap
// of the last two dims becomes ^T alone; the same of a grouped product's y
Result flag_operand_transpose(Rewriter& rewriter, const Node& node) {
  if (!ir::is_matmul(node.op)) return std::nullopt;
  for (std::size_t i = ir::is_grouped_matmul(node.op) ? 1 : 0; i < 2; ++i) {
    if (rewriter[node.args[i]].op != Op::transpose) continue;
    Node view = rewriter[node.args[i]];
    const std::size_t last = view.permutation.size() - 1;
    if (view.permutation[last - 1] < view.permutation[last]) continue;
    std::swap(view.permutation[last - 1], view.permutation[last]);
    Node flagged = node;
    bool& flag = i == 0 ? flagged.transpose_a : flagged.transpose_b;
    flag = !flag;
    if (std::is_sorted(view.permutation.begin(), view.permutation.end())) {
      flagged.args[i] = view.args[0];
    } else {
      view.name = rewriter.fresh_name(view.name, "view");
      flagged.args[i] = rewriter.add(view);
    }
    return flagged;
  }
  return std::nullopt;
}

// matmul(broadcast(x), y) = matmul(x, y) where the batch dims of y span the result anyway
Result drop_operand_batch_broadcast(Rewriter& rewriter, const Node& node) {
  if (node.op != Op::matmul) return std::nullopt;
  for (std::size_t i = 0; i < 2; ++i) {
    const ValueId inner = repeated_value(rewriter.graph(), node.args[i]);
    if (inner < 0) continue;
    const ir::Shape& from = rewriter[inner].type.shape;
    const ir::Shape& to = rewriter[node.args[i]].type.shape;
    if (from.size() < 2 || !std::equal(from.end() - 2, from.end(), to.end() - 2)) continue;
    Node candidate = node;
    candidate.args[i] = inner;
    if (same_type(ir::infer_type(rewriter.graph(), candidate), node.type)) return candidate;
  }
  return std::nullopt;
}

}  // namespace

// reshape(x, shape of x) = x, broadcast(x, shape of x) = x
Result drop_identity_shape(Rewriter& rewriter, const Node& node) {
  if (node.op != Op::reshape && node.op != Op::broadcast) return std::nullopt;
  if (rewriter[node.args[0]].type.shape != node.type.shape) return std::nullopt;
  return node.args[0];
}

// reshape(reshape(x, s), t) = reshape(x, t), broadcast(broadcast(x, s), t) = broadcast(x, t)
Result compose_shapes(Rewriter& rewriter, const Node& node) {
  if (node.op != Op::reshape && node.op != Op::broadcast) return std::nullopt;
  const Node& inner = rewriter[node.args[0]];
  if (inner.op != node.op) return std::nullopt;
  return with_op(node, node.op, inner.args);
}

namespace {

constexpr Rewrite kRewrites[] = {
    drop_identity_transpose,
    drop_identity_shape,
    drop_identity_slice,
    compose_transposes,
    compose_shapes,
    compose_slices,
    broadcast_ignores_leading_ones,
    drop_operand_broadcast,
    flag_operand_transpose,
    drop_operand_batch_broadcast,
};

}  // namespace

std::span<const Rewrite> view_rewrites() { return kRewrites; }

}  // namespace epifuse::passes
