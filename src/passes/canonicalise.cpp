// canonicalise: one spelling for each meaning, so that later passes need to know one form only.
#include <array>

#include "passes/pipeline.h"
#include "passes/rewrites.h"

namespace epifuse::passes {
namespace {

std::optional<Replacement> rewrite_once(Rewriter& rewriter, const ir::Node& node) {
  for (const auto rewrites :
       {view_rewrites(), constant_rewrites(), arithmetic_rewrites(), bound_rewrites()}) {
    for (const Rewrite rewrite : rewrites) {
      if (std::optional<Replacement> replacement = rewrite(rewriter, node)) return replacement;
    }
  }
  return std::nullopt;
}

}  // namespace

void settle(Rewriter& rewriter, ir::Node node,
            const std::function<std::optional<Replacement>(const ir::Node&)>& rewrite) {
  while (const std::optional<Replacement> replacement = rewrite(node)) {
    if (const ir::ValueId* value = std::get_if<ir::ValueId>(&*replacement)) {
      return rewriter.replace(*value);
    }
    node = std::get<ir::Node>(*replacement);
  }
  rewriter.keep(std::move(node));
}

// transpose, reshape, slice, broadcast: compose, vanish, or become a flag of the matmul that reads
// them; constants fold and stand second; every elementwise op in its shortest exact form. The
// operands of a node settle before it does, so one walk reaches the fixed point. Each rewrite
// leaves fewer or simpler nodes, or moves constants to one side for good, so a node settles. What
// the rewrites leave unused stays for dead_code.
ir::Graph canonicalise(const ir::Graph& graph) {
  Rewriter rewriter(graph);
  for (const ir::Node& node : graph.nodes) {
    settle(rewriter, rewriter.moved(node),
           [&](const ir::Node& each) { return rewrite_once(rewriter, each); });
  }
  return rewriter.finish();
}

}  // namespace epifuse::passes
