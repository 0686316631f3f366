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

// A value that must have the form of a pattern; `dtype` is that of the op that uses it.
struct Goal {
  const Pattern* pattern;
  ValueId id;
  DType dtype;
};

// Searches for bindings that meet all goals, trying both orders of commuting operands: which one
// fits may show only at a later goal. It recurses as deep as the pattern, not as the graph.
class Matcher {
 public:
  explicit Matcher(const Graph& graph) : graph_(graph) { bindings_.fill(-1); }

  bool match(const Pattern& pattern, const Node& node) { return meet_op(pattern, node); }
  const Bindings& bindings() const { return bindings_; }

 private:
  // Meets all goals. When it cannot, goals and bindings are as before the call; so for all below.
  bool meet_all() {
    if (goals_.empty()) return true;
    const Goal goal = goals_.back();
    goals_.pop_back();
    if (meet(goal)) return true;
    goals_.push_back(goal);
    return false;
  }

  // Meets this goal, then all others.
  bool meet(const Goal& goal) {
    switch (goal.pattern->kind) {
      case PatternKind::variable: return meet_variable(goal.pattern->variable, goal.id);
      case PatternKind::number:
        return matches_number(graph_, goal.pattern->number, goal.id, goal.dtype) && meet_all();
      default: return meet_op(*goal.pattern, graph_[goal.id]);
    }
  }

  bool meet_variable(char variable, ValueId id) {
    ValueId& bound = bindings_[letter_index(variable)];
    if (bound >= 0) return bound == id && meet_all();
    if (variable == kConstantVariable && !is_finite_constant(id)) return false;
    bound = id;
    if (meet_all()) return true;
    bound = -1;
    return false;
  }

  bool meet_op(const Pattern& pattern, const Node& node) {
    if (node.op != pattern.op) return false;
    if (meet_operands(pattern, node, false)) return true;
    return ir::info(node.op).commutes && meet_operands(pattern, node, true);
  }

  bool meet_operands(const Pattern& pattern, const Node& node, bool reversed) {
    const std::size_t num_goals = goals_.size(), arity = pattern.args.size();
    const auto operand = [&](std::size_t i) { return node.args[reversed ? arity - 1 - i : i]; };
    for (std::size_t i = 0; i < arity; ++i) {
      if (is_another_op(pattern.args[i], operand(i))) return false;
    }
    for (std::size_t i = 0; i < arity; ++i) {
      goals_.push_back({&pattern.args[i], operand(i), node.type.dtype});
    }
    if (meet_all()) return true;
    goals_.resize(num_goals);
    return false;
  }

  // What most operands fail by: no goal is worth a search then.
  bool is_another_op(const Pattern& pattern, ValueId id) const {
    return pattern.kind == PatternKind::op && graph_[id].op != pattern.op;
  }

  bool is_finite_constant(ValueId id) const {
    const std::optional<float> constant = constant_value(graph_, id);
    return constant && std::isfinite(*constant);
  }

  const Graph& graph_;
  std::vector<Goal> goals_;
  Bindings bindings_;
};

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
  Matcher matcher(graph);
  if (!matcher.match(pattern, node)) return std::nullopt;
  return matcher.bindings();
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
