// The table of passes, and running it.
#include "passes/pipeline.h"

#include <utility>

namespace epifuse::passes {
namespace {

constexpr std::string_view kCanonicalise =
    "Gives every meaning one spelling: views compose, constants fold, shortest exact ops.";
constexpr std::string_view kCommonSubexpressions = "Makes values that are computed alike one.";

// The order, and why passes come twice. Patterns of folds name a value several times, so equal
// values must be one first; canonicalise makes x * x of one value a square, and different spellings
// alike, hence common_subexpressions on both sides of it. A fold leaves constants and ops that
// canonicalise has a shorter spelling for. Sinking a reshape reshapes the same residual once for
// each user, and slices that were pushed meet other slices: the last merge makes equal ones one.
// Nothing after it leaves dead code. Narrow functions are what no fold knows, so they come last.
constexpr Pass kPasses[] = {
    {"common_subexpressions", common_subexpressions, false, kCommonSubexpressions},
    {"canonicalise", canonicalise, false, kCanonicalise},
    {"common_subexpressions", common_subexpressions, false, kCommonSubexpressions},
    {"fold_activations", fold_activations, true,
     "Makes activations that are spelled out in arithmetic one op again."},
    {"canonicalise", canonicalise, false, kCanonicalise},
    {"sink_reshapes", sink_reshapes, false,
     "Moves reshapes of matmul results behind the elementwise work on them."},
    {"block_maxima", block_maxima, false,
     "Takes maxima of columns that are split into blocks of 128 in the columns' own shape."},
    {"halves_of_heads", halves_of_heads, false,
     "Makes work that reads a matmul by halves of heads work on both halves of each head."},
    {"push_slices", push_slices, false,
     "Takes halves of a matmul's columns before the elementwise work on all of them."},
    {"canonicalise", canonicalise, false, kCanonicalise},
    {"common_subexpressions", common_subexpressions, false, kCommonSubexpressions},
    {"dead_code", dead_code, false, "Drops what no output needs."},
    {"narrow_functions", narrow_functions, true,
     "Computes functions as exactly as results of 8 significant bits need them."},
};

}  // namespace

std::span<const Pass> all() { return kPasses; }

ir::Graph run_all(const ir::Graph& graph, Numerics numerics,
                  const std::function<void(const Pass&, const ir::Graph&)>& log) {
  ir::verify(graph);
  ir::Graph current = graph;
  for (const Pass& pass : kPasses) {
    if (pass.skips_roundings && numerics == Numerics::exact) continue;
    ir::Graph next = pass.run(current);
    ir::verify(next);
    const bool changed = !(next == current);
    current = std::move(next);
    if (changed && log) log(pass, current);
  }
  return current;
}

}  // namespace epifuse::passes
