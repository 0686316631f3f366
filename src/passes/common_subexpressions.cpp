// common_subexpressions: values computed alike become one.
#include <algorithm>
#include <bit>
#include <cstdint>
#include <functional>
#include <unordered_map>
#include <utility>

#include "passes/pipeline.h"
#include "passes/rewriter.h"

namespace epifuse::passes {
namespace {

// A node by what it computes: without its name, operands of commuting ops in one order.
ir::Node expression_of(const ir::Node& node) {
  ir::Node expression = node;
  expression.name.clear();
  if (ir::info(node.op).commutes) std::sort(expression.args.begin(), expression.args.end());
  return expression;
}

// Equal down to the bits of constants: 0 and -0 are different values.
struct SameExpression {
  bool operator()(const ir::Node& a, const ir::Node& b) const {
    return a == b && std::bit_cast<std::uint64_t>(a.value) == std::bit_cast<std::uint64_t>(b.value);
  }
};

struct ExpressionHash {
  std::size_t operator()(const ir::Node& node) const {
    std::size_t hash = static_cast<std::size_t>(node.op);
    const auto mix = [&hash](std::size_t part) {
      hash = (hash ^ part) * std::size_t{0x9E3779B97F4A7C15};
      hash ^= hash >> 32;
    };
    for (const ir::ValueId arg : node.args) mix(static_cast<std::size_t>(arg));
    for (const int dim : node.permutation) mix(static_cast<std::size_t>(dim));
    mix(std::bit_cast<std::uint64_t>(node.value));
    mix(static_cast<std::size_t>(node.type.dtype));
    mix((node.transpose_a ? 1U : 0U) + (node.transpose_b ? 2U : 0U));
    mix(static_cast<std::size_t>(node.block_rows));
    // Only views have sizes of their own; other shapes follow from the operands.
    if (ir::is_view(node.op)) mix_sizes(node, mix);
    return hash;
  }

 private:
  static void mix_sizes(const ir::Node& node, const std::function<void(std::size_t)>& mix) {
    const std::hash<std::string> hash;
    for (const Dim& dim : node.type.shape) mix(hash(dim.str()));
    for (const ir::SliceRange& range : node.ranges) {
      mix(hash(range.start.str()));
      mix(hash(range.stop.str()));
      mix(static_cast<std::size_t>(range.step));
    }
  }
};

using Table = std::unordered_map<ir::Node, ir::ValueId, ExpressionHash, SameExpression>;

}  // namespace

// {a = f(x), b = f(x)} = {a = f(x), b = a}: the first one stays, with its name. Inputs and scalars
// are never alike.
ir::Graph common_subexpressions(const ir::Graph& graph) {
  return common_subexpressions_but(graph, {});
}

ir::Graph common_subexpressions_but(const ir::Graph& graph, const std::set<std::string>& names) {
  Rewriter rewriter(graph);
  Table seen;
  for (const ir::Node& source : graph.nodes) {
    ir::Node node = rewriter.moved(source);
    if (node.op == ir::Op::input || node.op == ir::Op::scalar || names.contains(source.name)) {
      rewriter.keep(std::move(node));
      continue;
    }
    ir::Node expression = expression_of(node);
    if (const auto found = seen.find(expression); found != seen.end()) {
      rewriter.replace(found->second);
      continue;
    }
    seen.emplace(std::move(expression), rewriter.keep(std::move(node)));
  }
  return rewriter.finish();
}

}  // namespace epifuse::passes
