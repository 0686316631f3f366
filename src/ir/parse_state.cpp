// The graph being read: its names and values.
#include "ir/parse_state.h"

#include <fmt/core.h>

#include <vector>

#include "base/did_you_mean.h"
#include "epifuse/error.h"
#include "ir/limits.h"
#include "ir/source_error.h"
#include "ir/words.h"

namespace epifuse::ir {
namespace {

// " (did you mean 'b'?)" among the values known by now.
std::string guess_value(const ParseState& state, std::string_view name) {
  constexpr std::size_t kMaxGuesses = 10'000;
  std::vector<std::string_view> known;
  for (const auto& [other, id] : state.ids) {
    if (known.size() < kMaxGuesses) known.push_back(other);
  }
  return did_you_mean(name, known);
}

}  // namespace

LiteralNames::LiteralNames(std::string_view text) {
  Lexer lexer(text);
  while (lexer.peek().kind != TokenKind::end) {
    if (lexer.peek().text.front() == 'c') taken_.insert(lexer.peek().text);
    lexer.take();
  }
}

std::string LiteralNames::next() {
  std::string name;
  do {
    name = fmt::format("c{}", num_made_++);
  } while (taken_.count(name) > 0);
  return name;
}

ValueId ParseState::parse_value(std::string_view expected) {
  const Token& word = lexer.peek();
  if (word.kind != TokenKind::name) lexer.fail_expected(expected);
  const auto found = ids.find(word.text);
  if (found == ids.end()) {
    lexer.fail(word.text, fmt::format("expected a value, got unknown name '{}'{}", word.text,
                                      guess_value(*this, word.text)));
  }
  lexer.take();
  return found->second;
}

Token ParseState::parse_new_name(std::string_view expected) {
  const Token& name = lexer.peek();
  if (name.kind != TokenKind::name) lexer.fail_expected(expected);
  if (is_reserved_word(name.text)) {
    lexer.fail_expected(expected, ", a word of the language");
  }
  if (ids.find(name.text) != ids.end()) {
    lexer.fail(name.text, fmt::format("'{}' is defined already; a name has one value", name.text));
  }
  return lexer.take();
}

DType ParseState::parse_dtype(std::string_view expected, std::string_view other) {
  const std::string_view names[] = {"f32", "bf16", "f16", "e4m3", "e5m2", "i8", "bool", other};
  const Token& word = lexer.peek();
  const auto dtype = word.kind == TokenKind::name ? dtype_from_name(word.text) : std::nullopt;
  if (!dtype) lexer.fail_expected(expected, did_you_mean(word.text, names));
  lexer.take();
  return *dtype;
}

ValueId ParseState::add(Node node, const Token& at) {
  if (graph.nodes.size() == kMaxNodes) {
    lexer.fail(at.text, fmt::format("a graph has at most {} values, this one has more", kMaxNodes));
  }
  try {
    node.type = infer_type(graph, node);
  } catch (const GraphError& error) {
    lexer.fail(at.text, error.what());
  }
  const auto id = static_cast<ValueId>(graph.nodes.size());
  ids.emplace(node.name, id);
  graph.nodes.push_back(std::move(node));
  return id;
}

}  // namespace epifuse::ir
