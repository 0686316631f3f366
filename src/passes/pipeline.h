// The passes, in order: each is a `Graph f(const Graph&)`, verified before and after.
#pragma once

#include <functional>
#include <map>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "epifuse/program.h"
#include "ir/graph.h"

namespace epifuse::passes {

using PassFunction = ir::Graph (*)(const ir::Graph&);

struct Pass {
  std::string_view name;  // as in tests/text/passes/<name>/ and `explain --passes`
  PassFunction run;
  bool skips_roundings;      // merges ops whose roundings `exact` keeps: not run then
  std::string_view summary;  // one sentence
};

std::span<const Pass> all();

// Runs every pass in order (under `exact`, those that keep roundings). `log`, if given, is called
// after each pass that changed the graph.
ir::Graph run_all(const ir::Graph& graph, Numerics numerics,
                  const std::function<void(const Pass&, const ir::Graph&)>& log = {});

// The passes, each in a file of its own name.
ir::Graph canonicalise(const ir::Graph& graph);      // one spelling for each meaning
ir::Graph fold_activations(const ir::Graph& graph);  // rows of fold_rules.def
ir::Graph common_subexpressions(const ir::Graph& graph);
// The same, but values of these names stay, and none is taken for them.
ir::Graph common_subexpressions_but(const ir::Graph& graph, const std::set<std::string>& names);
ir::Graph dead_code(const ir::Graph& graph);
ir::Graph sink_reshapes(const ir::Graph& graph);  // f(reshape(a), b) = reshape(f(a, reshape(b)))
// The same, and work on b that needs no product takes the shape before the reshape of a; where b
// has that shape only as a copy, f stays where it is.
ir::Graph sink_reshapes_of_operands(const ir::Graph& graph);
ir::Graph block_maxima(const ir::Graph& graph);  // row_max of columns in blocks = block_max
ir::Graph push_slices(const ir::Graph& graph);   // f(a, b)[half] = f(a[half], b[half])

// The same, with the name of the value that each new one is half of.
struct PushedSlices {
  ir::Graph graph;
  std::map<std::string, std::string> whole_of;
};
PushedSlices push_slices_by_name(const ir::Graph& graph);

ir::Graph narrow_functions(const ir::Graph& graph);  // rows of ir/narrow_ops.def

// Rotary positions and the like on both halves of each head.
ir::Graph halves_of_heads(const ir::Graph& graph);

// A product with heads, what has all of them again, and the names of all that is computed.
struct NamedWorkOnHeads {
  std::string product, result;
  std::vector<std::string> values;
  ir::Shape split;   // to which the product's columns are split; empty if it has heads already
  bool heads_first;  // [.., H, S, D]; else the result is a view of that
};
// The same where `takes` says so.
struct ChangedHeads {
  ir::Graph graph;
  std::map<std::string, std::string> whole_of;  // of each new name, that of which it is a part
  std::vector<NamedWorkOnHeads> work;
};
using TakesHeads = std::function<bool(const NamedWorkOnHeads&)>;
ChangedHeads halves_of_heads_by_name(const ir::Graph& graph, const TakesHeads& takes);

}  // namespace epifuse::passes
