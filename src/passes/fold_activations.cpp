// fold_activations: activations that were spelled out in arithmetic become one op again.
#include <fmt/core.h>

#include <utility>
#include <variant>

#include "passes/fold_rules.h"
#include "passes/pipeline.h"
#include "passes/rewrites.h"

namespace epifuse::passes {
namespace {

// The rules by the op at their root.
class RuleIndex {
 public:
  RuleIndex() : by_op_(ir::all_ops().size()) {
    for (SpelledRule& rule : spelled_rules()) {
      by_op_[static_cast<std::size_t>(rule.from.op)].push_back(std::move(rule));
    }
  }
  std::span<const SpelledRule> with_root(ir::Op op) const {
    return by_op_[static_cast<std::size_t>(op)];
  }

 private:
  std::vector<std::vector<SpelledRule>> by_op_;
};

// What `node` becomes by one rule, if that has the same type.
std::optional<Replacement> apply(Rewriter& rewriter, const SpelledRule& rule,
                                 const ir::Node& node) {
  const std::optional<Bindings> bindings = match(rewriter.graph(), rule.from, node);
  if (!bindings) return std::nullopt;
  if (rule.to.kind == PatternKind::variable) {
    const ir::ValueId value = (*bindings)[letter_index(rule.to.variable)];
    if (!same_type(rewriter[value].type, node.type)) return std::nullopt;
    return value;
  }
  const ir::Node folded =
      with_op(node, rule.to.op, build_operands(rewriter, rule.to, *bindings, node));
  if (!same_type(ir::infer_type(rewriter.graph(), folded), node.type)) return std::nullopt;
  return folded;
}

std::optional<Replacement> fold_once(Rewriter& rewriter, const RuleIndex& rules,
                                     const ir::Node& node) {
  for (const SpelledRule& rule : rules.with_root(node.op)) {
    if (std::optional<Replacement> folded = apply(rewriter, rule, node)) return folded;
  }
  return std::nullopt;
}

}  // namespace

// x / (1 + exp(-x)) = silu(x), and the other rows of fold_rules.def. Operands fold before their
// users, so a rule may name ops that other rules yield. Every rule leaves fewer ops (a unit test
// checks), so a node settles. An inner value that has other users, or is
// an output, stays for them; what nothing uses any more stays for dead_code.
ir::Graph fold_activations(const ir::Graph& graph) {
  static const RuleIndex rules;
  Rewriter rewriter(graph);
  for (const ir::Node& node : graph.nodes) {
    settle(rewriter, rewriter.moved(node),
           [&](const ir::Node& each) { return fold_once(rewriter, rules, each); });
  }
  return rewriter.finish();
}

}  // namespace epifuse::passes
