// `.epi` text, both ways: parse(print(g)) == g when the inputs of g come before its ops and it has
// an output, and print(parse(t)) == t for printed text.
#pragma once

#include <string>
#include <string_view>

#include "ir/graph.h"

namespace epifuse::ir {

std::string print(const Graph& graph);
std::string print(const TensorType& type);
std::string print(const Shape& shape);

// Throws ParseError with line and column. Never crashes or hangs, whatever the text.
Graph parse(std::string_view text);

}  // namespace epifuse::ir
