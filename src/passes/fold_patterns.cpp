// Matches patterns against a graph, and builds them.
#include "passes/fold_patterns.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>

#include "base/check.h"
#include "base/float_types.h"
#include "base/text.h"
#include "passes/rewrites.h"

namespace epifuse::passes {
namespace {

using ir::Graph;
using ir::Node;
using ir::ValueId;

bool matches_number(const Graph& graph, double number, ValueId id, DType dtype) {
  const std::optional<float> constant = constant_value(graph, id);
  if (!constant) return false;
  const auto value = static_cast<double>(*constant);
  if (round_to(number, DType::bf16) == number) return value == number;
  if (value == round_to(number, dtype)) return true;
  return std::fabs(value - number) <= constant_tolerance(dtype) * std::fabs(number);
}

// Bindings with `variable` bound to `id`, unless it stands for something else already.
std::optional<Bindings> bind(const Graph& graph, char variable, ValueId id, Bindings bindings) {
  if (variable == kConstantVariable) {
    const std::optional<float> constant = constant_value(graph, id);
    if (!constant || !std::isfinite(*constant)) return std::nullopt;
  }
  ValueId& bound = bindings[letter_index(variable)];
  if (bound >= 0 && bound != id) return std::nullopt;
  bound = id;
  return bindings;
}

std::vector<Bindings> match_op(const Graph& graph, const Pattern& pattern, const Node& node,
                               const Bindings& bindings);

// Every way in which operand `id` of an op of this dtype has the form of `pattern`, given bindings.
// All ways are followed, since which order of operands fits may show only further up. This recurses
// as deep as the pattern, not as the graph.
std::vector<Bindings> match_operand(const Graph& graph, const Pattern& pattern, ValueId id,
                                    DType dtype, const Bindings& bindings) {
  switch (pattern.kind) {
    case PatternKind::variable: {
      const std::optional<Bindings> bound = bind(graph, pattern.variable, id, bindings);
      return bound ? std::vector{*bound} : std::vector<Bindings>{};
    }
    case PatternKind::number:
      return matches_number(graph, pattern.number, id, dtype) ? std::vector{bindings}
                                                              : std::vector<Bindings>{};
    default: return match_op(graph, pattern, graph[id], bindings);
  }
}

// The ways that match with operands in the order given, or reversed.
std::vector<Bindings> match_args(const Graph& graph, const Pattern& pattern, const Node& node,
                                 bool reversed, const Bindings& bindings) {
  std::vector<Bindings> ways = {bindings};
  for (std::size_t i = 0; i < pattern.args.size() && !ways.empty(); ++i) {
    const ValueId id = node.args[reversed ? node.args.size() - 1 - i : i];
    std::vector<Bindings> next;
    for (const Bindings& way : ways) {
      const auto found = match_operand(graph, pattern.args[i], id, node.type.dtype, way);
      next.insert(next.end(), found.begin(), found.end());
    }
    ways = std::move(next);
  }
  return ways;
}

std::vector<Bindings> match_op(const Graph& graph, const Pattern& pattern, const Node& node,
                               const Bindings& bindings) {
  if (node.op != pattern.op) return {};
  std::vector<Bindings> ways = match_args(graph, pattern, node, false, bindings);
  if (ir::info(node.op).commutes && node.args[0] != node.args[1]) {
    const auto more = match_args(graph, pattern, node, true, bindings);
    ways.insert(ways.end(), more.begin(), more.end());
  }
  return ways;
}

ValueId build(Rewriter& rewriter, const Pattern& pattern, const Bindings& bindings,
              const Node& root) {
  if (pattern.kind == PatternKind::variable) return bindings[letter_index(pattern.variable)];
  if (pattern.kind == PatternKind::number) return rewriter.add_constant(pattern.number);
  Node node{.op = pattern.op};
  node.args = build_operands(rewriter, pattern, bindings, root);
  const std::optional<float> constant = fold_constant(rewriter.graph(), node.op, node.args);
  if (constant) return rewriter.add_constant(static_cast<double>(*constant));
  node.name = rewriter.fresh_name(root.name, ir::name(node.op));
  return rewriter.add(std::move(node));
}

}  // namespace

std::string print(const Pattern& pattern) {
  if (pattern.kind == PatternKind::variable) return std::string(1, pattern.variable);
  if (pattern.kind == PatternKind::number) return number_text(pattern.number);
  std::string args;
  for (const Pattern& arg : pattern.args) args += (args.empty() ? "" : ", ") + print(arg);
  return fmt::format("{}({})", ir::name(pattern.op), args);
}

double constant_tolerance(DType dtype) {
  switch (dtype) {
    case DType::bf16: return 1e-3;
    case DType::f16: return 2e-4;
    default: return 2e-5;
  }
}

std::optional<Bindings> match(const Graph& graph, const Pattern& pattern, const Node& node) {
  EPIFUSE_CHECK(pattern.kind == PatternKind::op, "the root of a pattern is an op");
  Bindings unbound;
  unbound.fill(-1);
  const std::vector<Bindings> ways = match_op(graph, pattern, node, unbound);
  if (ways.empty()) return std::nullopt;
  return ways.front();
}

std::vector<ValueId> build_operands(Rewriter& rewriter, const Pattern& pattern,
                                    const Bindings& bindings, const Node& root) {
  std::vector<ValueId> operands;
  for (const Pattern& arg : pattern.args) {
    operands.push_back(build(rewriter, arg, bindings, root));
  }
  return operands;
}

}  // namespace epifuse::passes
