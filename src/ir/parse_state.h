// The graph being read: the text, what its names mean, and the values made so far.
#pragma once

#include <map>
#include <set>
#include <string>
#include <string_view>

#include "ir/dim_parser.h"
#include "ir/graph.h"
#include "ir/lexer.h"

namespace epifuse::ir {

// Names c0, c1, ... that occur nowhere in the text: for the constants that literals become.
class LiteralNames {
 public:
  explicit LiteralNames(std::string_view text);
  std::string next();

 private:
  std::set<std::string_view> taken_;
  std::size_t num_made_ = 0;
};

struct ParseState {
  explicit ParseState(std::string_view text) : lexer(text), literal_names(text) {}

  Lexer lexer;
  LiteralNames literal_names;
  Symbols symbols;
  Graph graph;
  std::map<std::string, ValueId, std::less<>> ids;

  // The value that the next token names.
  ValueId parse_value(std::string_view expected = "a value");
  // The next token, a name that is free.
  Token parse_new_name(std::string_view expected);
  // The dtype that the next token names; `other` is a word that may stand there too.
  DType parse_dtype(std::string_view expected, std::string_view other = {});
  // Appends a node whose result type is inferred; `at` is where its errors point.
  ValueId add(Node node, const Token& at);
};

}  // namespace epifuse::ir
