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

// Rewrites a node until no rewrite applies. Each one leaves fewer or simpler nodes, or moves
// constants to one side for good, so this ends.
void settle(Rewriter& rewriter, ir::Node node) {
  while (const std::optional<Replacement> replacement = rewrite_once(rewriter, node)) {
    if (const ir::ValueId* value = std::get_if<ir::ValueId>(&*replacement)) {
      rewriter.replace(*value);
      return;
    }
    node = std::get<ir::Node>(*replacement);
  }
  rewriter.keep(std::move(node));
}

}  // namespace

// transpose, reshape, slice, broadcast: compose, vanish, or become a flag of the matmul that reads
// them; constants fold and stand second; every elementwise op in its shortest exact form. The
// operands of a node settle before it does, so one walk reaches the fixed point. What the rewrites
// leave unused stays for dead_code.
ir::Graph canonicalise(const ir::Graph& graph) {
  Rewriter rewriter(graph);
  for (const ir::Node& node : graph.nodes) settle(rewriter, rewriter.moved(node));
  return rewriter.finish();
}

}  // namespace epifuse::passes
