// Rewrites of bounds and choices: min, max, relu, clamp and select.
#include <utility>

#include "passes/rewrites.h"

namespace epifuse::passes {
namespace {

using ir::Node;
using ir::Op;
using ir::ValueId;
using Result = std::optional<Replacement>;

// min(x, x) = max(x, x) = select(c, x, x) = x
Result drop_equal_choice(Rewriter& rewriter, const Node& node) {
  if (node.op != Op::min && node.op != Op::max && node.op != Op::select) return std::nullopt;
  const ValueId last = node.args.back();
  if (node.args[node.args.size() - 2] != last) return std::nullopt;
  if (!same_type(rewriter[last].type, node.type)) return std::nullopt;
  return last;
}

// select(lt(1, 2), x, y) = x
Result decide_constant_select(Rewriter& rewriter, const Node& node) {
  if (node.op != Op::select) return std::nullopt;
  const Node& condition = rewriter[node.args[0]];
  if (ir::info(condition.op).kind != ir::OpKind::compare) return std::nullopt;
  const std::optional<float> holds = fold_constant(rewriter.graph(), condition.op, condition.args);
  if (!holds) return std::nullopt;
  const ValueId chosen = node.args[*holds != 0 ? 1 : 2];
  if (!same_type(rewriter[chosen].type, node.type)) return std::nullopt;
  return chosen;
}

// max(x, 0) = relu(x): both keep NaN, and max may return either zero
Result spell_relu(Rewriter& rewriter, const Node& node) {
  if (node.op != Op::max) return std::nullopt;
  const std::optional<float> bound = constant_value(rewriter.graph(), node.args[1]);
  if (!bound || *bound != 0) return std::nullopt;
  return with_op(node, Op::relu, {node.args[0]});
}

// relu(relu(x)) = relu(x)
Result drop_double_relu(Rewriter& rewriter, const Node& node) {
  if (node.op != Op::relu || rewriter[node.args[0]].op != Op::relu) return std::nullopt;
  return node.args[0];
}

// One bound of x: the constant's id, or -1 with value 0 for relu.
struct Bound {
  ValueId x;
  ValueId constant;
  float value;
};

// The bound that `node` (min: upper; max or relu: lower) sets, if it is a constant.
std::optional<Bound> bound_of(const ir::Graph& graph, const Node& node) {
  if (node.op == Op::relu) return Bound{node.args[0], -1, 0};
  const std::optional<float> value = constant_value(graph, node.args[1]);
  if (!value) return std::nullopt;
  return Bound{node.args[0], node.args[1], *value};
}

// min(max(x, l), h) = max(min(x, h), l) = clamp(x, l, h) for constants l <= h, where relu is a max
// with 0. Rounding between the two does not matter: it is monotone, and h rounds like l in between.
Result spell_clamp(Rewriter& rewriter, const Node& node) {
  const auto is_lower = [](Op op) { return op == Op::max || op == Op::relu; };
  if (node.op != Op::min && !is_lower(node.op)) return std::nullopt;
  const Node& inner = rewriter[node.args[0]];
  const bool fits = node.op == Op::min ? is_lower(inner.op) : inner.op == Op::min;
  if (!fits) return std::nullopt;
  std::optional<Bound> low = bound_of(rewriter.graph(), inner);
  std::optional<Bound> high = bound_of(rewriter.graph(), node);
  if (!low || !high) return std::nullopt;
  const ValueId x = low->x;
  if (inner.op == Op::min) std::swap(low, high);
  if (low->value > high->value || !same_type(rewriter[x].type, node.type)) return std::nullopt;
  if (low->constant < 0) low->constant = rewriter.add_constant(0);
  return with_op(node, Op::clamp, {x, low->constant, high->constant});
}

constexpr Rewrite kRewrites[] = {
    drop_equal_choice, decide_constant_select, spell_relu, drop_double_relu, spell_clamp,
};

}  // namespace

std::span<const Rewrite> bound_rewrites() { return kRewrites; }

}  // namespace epifuse::passes
