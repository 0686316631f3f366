// Rewrites of arithmetic: neutral operands, signs, powers. Constants stand second already.
#include <cmath>
#include <limits>

#include "passes/rewrites.h"

namespace epifuse::passes {
namespace {

using ir::Node;
using ir::Op;
using ir::ValueId;
using Result = std::optional<Replacement>;

// Whether `id` is the constant `value`; +0 and -0 are told apart.
bool is_constant(const Rewriter& rewriter, ValueId id, float value) {
  const std::optional<float> constant = constant_value(rewriter.graph(), id);
  return constant && *constant == value && std::signbit(*constant) == std::signbit(value);
}

ValueId negated(const Rewriter& rewriter, ValueId id) {
  return operand_of(rewriter.graph(), id, Op::neg);
}

ValueId add_negated(Rewriter& rewriter, ValueId constant) {
  return rewriter.add_constant(-rewriter[constant].value);
}

// Whether f(x, c) = x, bit for bit. Not x + 0, which turns -0 into 0.
bool is_neutral(const Rewriter& rewriter, Op op, ValueId second) {
  switch (op) {
    case Op::mul:
    case Op::div:
    case Op::pow: return is_constant(rewriter, second, 1.0F);
    case Op::sub: return is_constant(rewriter, second, 0.0F);
    case Op::add: return is_constant(rewriter, second, -0.0F);
    default: return false;
  }
}

// x * 1 = x / 1 = pow(x, 1) = x - 0 = x + -0 = x
Result drop_neutral_operand(Rewriter& rewriter, const Node& node) {
  if (node.args.size() != 2 || !is_neutral(rewriter, node.op, node.args[1])) return std::nullopt;
  if (!same_type(rewriter[node.args[0]].type, node.type)) return std::nullopt;
  return node.args[0];
}

// x * -1 = x / -1 = -0 - x = neg(x), but not 0 - x, which is 0 for x = 0
Result spell_neg(Rewriter& rewriter, const Node& node) {
  if (node.op == Op::mul || node.op == Op::div) {
    if (is_constant(rewriter, node.args[1], -1.0F)) return with_op(node, Op::neg, {node.args[0]});
  }
  if (node.op == Op::sub && is_constant(rewriter, node.args[0], -0.0F)) {
    return with_op(node, Op::neg, {node.args[1]});
  }
  return std::nullopt;
}

// neg(neg(x)) = x
Result drop_double_neg(Rewriter& rewriter, const Node& node) {
  if (node.op != Op::neg) return std::nullopt;
  const ValueId inner = negated(rewriter, node.args[0]);
  if (inner < 0) return std::nullopt;
  return inner;
}

// x + neg(y) = neg(y) + x = x - y
Result add_of_neg(Rewriter& rewriter, const Node& node) {
  if (node.op != Op::add) return std::nullopt;
  if (const ValueId y = negated(rewriter, node.args[1]); y >= 0) {
    return with_op(node, Op::sub, {node.args[0], y});
  }
  if (const ValueId y = negated(rewriter, node.args[0]); y >= 0) {
    return with_op(node, Op::sub, {node.args[1], y});
  }
  return std::nullopt;
}

// x - neg(y) = x + y, and x - c = x + -c
Result sub_of_neg(Rewriter& rewriter, const Node& node) {
  if (node.op != Op::sub) return std::nullopt;
  if (const ValueId y = negated(rewriter, node.args[1]); y >= 0) {
    return with_op(node, Op::add, {node.args[0], y});
  }
  if (rewriter[node.args[1]].op != Op::constant) return std::nullopt;
  return with_op(node, Op::add, {node.args[0], add_negated(rewriter, node.args[1])});
}

// neg(x) * neg(y) = x * y, and neg(x) * c = x * -c; the same for /
Result product_of_negs(Rewriter& rewriter, const Node& node) {
  if (node.op != Op::mul && node.op != Op::div) return std::nullopt;
  const ValueId x = negated(rewriter, node.args[0]);
  if (x < 0) return std::nullopt;
  if (const ValueId y = negated(rewriter, node.args[1]); y >= 0) {
    return with_op(node, node.op, {x, y});
  }
  if (rewriter[node.args[1]].op != Op::constant) return std::nullopt;
  return with_op(node, node.op, {x, add_negated(rewriter, node.args[1])});
}

// square(neg(x)) = square(abs(x)) = square(x), and the same for abs
Result drop_sign_of_even(Rewriter& rewriter, const Node& node) {
  if (node.op != Op::square && node.op != Op::abs) return std::nullopt;
  for (const Op sign : {Op::neg, Op::abs}) {
    const ValueId inner = operand_of(rewriter.graph(), node.args[0], sign);
    if (inner >= 0) return with_op(node, node.op, {inner});
  }
  return std::nullopt;
}

// x / 4 = x * 0.25: both round the same real number when the divisor is a power of two
Result divide_by_power_of_two(Rewriter& rewriter, const Node& node) {
  if (node.op != Op::div) return std::nullopt;
  const std::optional<float> c = constant_value(rewriter.graph(), node.args[1]);
  if (!c || !std::isnormal(*c) || !std::isnormal(1.0F / *c)) return std::nullopt;
  int exponent = 0;
  if (std::fabs(std::frexp(*c, &exponent)) != 0.5F) return std::nullopt;
  const ValueId reciprocal = rewriter.add_constant(1.0 / static_cast<double>(*c));
  return with_op(node, Op::mul, {node.args[0], reciprocal});
}

// x * x = pow(x, 2) = square(x)
Result spell_square(Rewriter& rewriter, const Node& node) {
  const bool is_product = node.op == Op::mul && node.args[0] == node.args[1];
  const bool is_power = node.op == Op::pow && is_constant(rewriter, node.args[1], 2.0F);
  if (!is_product && !is_power) return std::nullopt;
  return with_op(node, Op::square, {node.args[0]});
}

// pow(x, -1) = 1 / x. Not pow(x, 0.5) = sqrt(x): they differ at -0 and at -inf
Result spell_reciprocal(Rewriter& rewriter, const Node& node) {
  if (node.op != Op::pow || !is_constant(rewriter, node.args[1], -1.0F)) return std::nullopt;
  return with_op(node, Op::div, {rewriter.add_constant(1), node.args[0]});
}

constexpr Rewrite kRewrites[] = {
    drop_neutral_operand, spell_neg,         drop_double_neg,        add_of_neg,   sub_of_neg,
    product_of_negs,      drop_sign_of_even, divide_by_power_of_two, spell_square, spell_reciprocal,
};

}  // namespace

std::span<const Rewrite> arithmetic_rewrites() { return kRewrites; }

}  // namespace epifuse::passes
