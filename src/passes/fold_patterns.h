// Patterns over elementwise ops: read from text, matched against a graph, built into one.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ir/graph.h"
#include "passes/rewriter.h"

namespace epifuse::passes {

enum class PatternKind : std::uint8_t { variable, number, op };

// A variable, a number, or an op applied to patterns.
struct Pattern {
  PatternKind kind = PatternKind::variable;
  char variable = 0;
  double number = 0;
  ir::Op op = ir::Op::constant;
  std::vector<Pattern> args;
  bool operator==(const Pattern&) const = default;
};

// One spelling of a form, e.g. "cube(x)" as "mul(square(x), x)".
struct FoldForm {
  std::string_view head, spelling;
};

// The variable that matches finite constants only.
constexpr char kConstantVariable = 'c';

// All patterns that `text` stands for, its forms spelled in every way. Throws InternalError when
// the text is no pattern over ops and `forms`.
std::vector<Pattern> parse_patterns(std::string_view text, std::span<const FoldForm> forms);

// As parse_patterns reads it: "mul(x, sigmoid(x))".
std::string print(const Pattern& pattern);

// The value of each variable, by letter; -1 where a letter has none.
using Bindings = std::array<ir::ValueId, 26>;
inline std::size_t letter_index(char letter) { return static_cast<std::size_t>(letter - 'a'); }

// How far a constant may be from a number of a pattern, relatively, where an op of this dtype uses
// it: see fold_rules.def.
double constant_tolerance(DType dtype);

// What the variables stand for when `node`, with operands in `graph`, has the form of `pattern`.
std::optional<Bindings> match(const ir::Graph& graph, const Pattern& pattern, const ir::Node& node);

// Adds the operands that `pattern`, an op, needs in the place of `root` and returns them. Ops on
// constants become constants.
std::vector<ir::ValueId> build_operands(Rewriter& rewriter, const Pattern& pattern,
                                        const Bindings& bindings, const ir::Node& root);

}  // namespace epifuse::passes
