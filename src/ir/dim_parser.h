// Reads sizes: `768`, `M`, `2*M + 1`, and lists of them.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "epifuse/dim.h"
#include "ir/lexer.h"

namespace epifuse::ir {

// The size symbols that inputs declare by using them.
struct Symbols {
  std::set<std::string, std::less<>> declared;
  bool open = true;  // a new name declares a symbol; else it is an error
};

Dim parse_dim(Lexer& lexer, Symbols& symbols);

// `[M, 768]`
std::vector<Dim> parse_dims(Lexer& lexer, Symbols& symbols);

// A 64-bit integer, `negated` when a minus came before it.
std::int64_t parse_integer(Lexer& lexer, std::string_view expected, bool negated = false);

}  // namespace epifuse::ir
