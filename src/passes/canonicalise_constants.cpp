// Rewrites of constants, and of casts.
#include <cmath>
#include <cstddef>
#include <utility>

#include "base/float_types.h"
#include "passes/rewrites.h"

namespace epifuse::passes {
namespace {

using ir::Node;
using ir::Op;
using ir::ValueId;
using Result = std::optional<Replacement>;

Node constant_node(const Node& node, double value) {
  Node constant = with_op(node, Op::constant, {});
  constant.value = value;
  return constant;
}

// f(1, 2) = the float32 result, for arithmetic f
Result fold_constants(Rewriter& rewriter, const Node& node) {
  if (ir::info(node.op).kind != ir::OpKind::arith) return std::nullopt;
  const std::optional<float> value = fold_constant(rewriter.graph(), node.op, node.args);
  if (!value) return std::nullopt;
  return constant_node(node, static_cast<double>(*value));
}

// cast(cast(c, d), f32) = c rounded to d
Result fold_cast_constant(Rewriter& rewriter, const Node& node) {
  if (node.op != Op::cast || node.type.dtype != DType::f32) return std::nullopt;
  const Node& inner = rewriter[node.args[0]];
  if (inner.op != Op::cast) return std::nullopt;
  const std::optional<float> value = constant_value(rewriter.graph(), inner.args[0]);
  if (!value) return std::nullopt;
  return constant_node(node, round_to(static_cast<double>(*value), inner.type.dtype));
}

// f(x, cast(c, d)) = f(x, c rounded to d) where the result keeps its dtype: 0-d f32 goes with any
Result use_rounded_constant(Rewriter& rewriter, const Node& node) {
  if (!ir::is_elementwise(node.op) || node.args.size() < 2) return std::nullopt;
  for (std::size_t i = 0; i < node.args.size(); ++i) {
    const ValueId inner = operand_of(rewriter.graph(), node.args[i], Op::cast);
    if (inner < 0) continue;
    const std::optional<float> value = constant_value(rewriter.graph(), inner);
    if (!value) continue;
    Node candidate = node;
    candidate.args[i] = inner;  // of the type that the rounded constant will have
    if (!same_type(ir::infer_type(rewriter.graph(), candidate), node.type)) continue;
    const DType dtype = rewriter[node.args[i]].type.dtype;
    candidate.args[i] = rewriter.add_constant(round_to(static_cast<double>(*value), dtype));
    return candidate;
  }
  return std::nullopt;
}

// The op that holds for (b, a) when `op` does for (a, b).
Op mirrored(Op op) {
  switch (op) {
    case Op::lt: return Op::gt;
    case Op::le: return Op::ge;
    case Op::gt: return Op::lt;
    case Op::ge: return Op::le;
    default: return op;
  }
}

// f(c, x) = f(x, c) for commuting f, and gt(c, x) = lt(x, c)
Result put_constant_second(Rewriter& rewriter, const Node& node) {
  if (node.args.size() != 2) return std::nullopt;
  const ir::OpInfo& info = ir::info(node.op);
  if (!info.commutes && info.kind != ir::OpKind::compare) return std::nullopt;
  if (rewriter[node.args[0]].op != Op::constant) return std::nullopt;
  if (rewriter[node.args[1]].op == Op::constant) return std::nullopt;
  return with_op(node, mirrored(node.op), {node.args[1], node.args[0]});
}

// Whether `value` holds what its dtype can hold under `fast` too, which may leave the result of an
// op in float32.
bool is_surely_rounded(const Node& value) {
  return value.type.dtype == DType::f32 || ir::is_source(value.op) || value.op == Op::cast;
}

// cast(x, dtype of x) = x: rounding what is rounded changes nothing
Result drop_identity_cast(Rewriter& rewriter, const Node& node) {
  if (node.op != Op::cast) return std::nullopt;
  const Node& operand = rewriter[node.args[0]];
  if (operand.type.dtype != node.type.dtype || !is_surely_rounded(operand)) return std::nullopt;
  return node.args[0];
}

// Whether every value of `narrow` is one of `wide`.
bool holds_all_of(DType wide, DType narrow) {
  switch (wide) {
    case DType::f32: return true;
    case DType::bf16:
    case DType::f16: return is_narrow(narrow) || narrow == DType::boolean;
    default: return narrow == DType::boolean;
  }
}

// cast(cast(x, wider), d) = cast(x, d) when `wider` holds every value of x
Result drop_widening_cast(Rewriter& rewriter, const Node& node) {
  if (node.op != Op::cast) return std::nullopt;
  const Node& inner = rewriter[node.args[0]];
  if (inner.op != Op::cast) return std::nullopt;
  if (!holds_all_of(inner.type.dtype, rewriter[inner.args[0]].type.dtype)) return std::nullopt;
  return with_op(node, Op::cast, inner.args);
}

constexpr Rewrite kRewrites[] = {
    fold_constants,      fold_cast_constant, use_rounded_constant,
    put_constant_second, drop_identity_cast, drop_widening_cast,
};

}  // namespace

std::span<const Rewrite> constant_rewrites() { return kRewrites; }

std::optional<float> constant_value(const ir::Graph& graph, ValueId id) {
  const Node& node = graph[id];
  if (node.op != Op::constant) return std::nullopt;
  return static_cast<float>(node.value);
}

std::optional<float> fold_constant(const ir::Graph& graph, Op op, std::span<const ValueId> args) {
  double x[3] = {};
  for (std::size_t i = 0; i < args.size(); ++i) {
    const std::optional<float> value = constant_value(graph, args[i]);
    if (!value) return std::nullopt;
    x[i] = static_cast<double>(*value);
  }
  const auto result = static_cast<float>(ir::info(op).reference(x));
  if (std::isnan(result)) return std::nullopt;  // constants are numbers
  return result;
}

ValueId operand_of(const ir::Graph& graph, ValueId id, Op op) {
  const Node& node = graph[id];
  return node.op == op && node.args.size() == 1 ? node.args[0] : -1;
}

}  // namespace epifuse::passes
