// Reads `.epi` text into a graph: recursive descent, one statement a line (docs/epi.md).
#include <fmt/core.h>

#include <optional>
#include <set>
#include <utility>

#include "ir/graph.h"
#include "ir/limits.h"
#include "ir/parse_call.h"
#include "ir/parse_state.h"
#include "ir/source_error.h"
#include "ir/text.h"
#include "ir/words.h"

namespace epifuse::ir {
namespace {

class Parser {
 public:
  explicit Parser(std::string_view text) : state_(text), lexer_(state_.lexer) {}
  Graph run();

 private:
  void parse_input();
  TensorType parse_type(bool with_strides);
  void parse_statement();
  void parse_return();
  void check_output_name(const Token& name, const Token& value) const;
  void end_statement();

  ParseState state_;
  Lexer& lexer_;
  std::set<std::string_view> output_names_;
};

Graph Parser::run() {
  lexer_.skip_newlines();
  lexer_.expect("graph", "'graph' and its name");
  state_.graph.name = state_.parse_new_name("the name of the graph").text;
  lexer_.expect("(", "'(' and the inputs");
  while (!lexer_.peek().is(")")) {
    if (!state_.graph.nodes.empty()) lexer_.expect(",", "',' or ')'");
    parse_input();
  }
  lexer_.take();
  state_.symbols.open = false;
  lexer_.skip_newlines();
  lexer_.expect("{", "'{' and the statements");
  lexer_.skip_newlines();
  while (!lexer_.peek().is("return")) {
    parse_statement();
    lexer_.skip_newlines();
  }
  parse_return();
  lexer_.skip_newlines();
  lexer_.expect("}", "'}' after the outputs");
  lexer_.skip_newlines();
  if (lexer_.peek().kind != TokenKind::end) lexer_.fail_expected("the end of the text");
  return std::move(state_.graph);
}

// input = name ":" ("scalar" | type)
void Parser::parse_input() {
  const Token name = state_.parse_new_name("the name of an input");
  lexer_.expect(":", "':' and the type of the input");
  Node node{.op = Op::input, .name = std::string(name.text)};
  const Token type = lexer_.peek();
  if (lexer_.accept("scalar")) {
    node.op = Op::scalar;
  } else {
    node.type = parse_type(true);
  }
  state_.add(std::move(node), type);
}

// type = dtype "[" sizes "]" [ "strides" "[" sizes "]" ]
TensorType Parser::parse_type(bool with_strides) {
  TensorType type;
  type.dtype = with_strides
                   ? state_.parse_dtype("a type such as bf16[M, 768], or 'scalar'", "scalar")
                   : state_.parse_dtype("a type such as bf16[M, 768]");
  type.shape = parse_dims(lexer_, state_.symbols);
  if (with_strides && lexer_.accept("strides")) type.strides = parse_dims(lexer_, state_.symbols);
  return type;
}

// return = "return" output { "," output };  output = value [ "as" name ]
void Parser::parse_return() {
  lexer_.expect("return");
  do {
    lexer_.skip_newlines();
    const Token value = lexer_.peek();
    const ValueId id = state_.parse_value();
    Token name = value;
    if (lexer_.accept("as")) {
      name = lexer_.peek();
      if (name.kind != TokenKind::name) lexer_.fail_expected("the name of the output");
      lexer_.take();
    }
    check_output_name(name, value);
    output_names_.insert(name.text);
    state_.graph.outputs.push_back({std::string(name.text), id});
  } while (lexer_.accept(","));
  end_statement();
}

// Tensors are bound by name, so outputs and inputs have distinct names.
void Parser::check_output_name(const Token& name, const Token& value) const {
  if (is_reserved_word(name.text)) {
    lexer_.fail(name.text, fmt::format("expected the name of the output, got '{}', a word of the "
                                       "language",
                                       name.text));
  }
  const auto found = state_.ids.find(name.text);
  const bool is_input = found != state_.ids.end() && (state_.graph[found->second].op == Op::input ||
                                                      state_.graph[found->second].op == Op::scalar);
  if (is_input || output_names_.count(name.text) > 0) {
    lexer_.fail(name.text,
                fmt::format("expected a new name for the output, got '{}', which is an "
                            "{}; name it as in `{} as other`",
                            name.text, is_input ? "input" : "output already", value.text));
  }
}

// statement = name [ ":" type ] "=" call
void Parser::parse_statement() {
  if (lexer_.peek().is("}") || lexer_.peek().kind == TokenKind::end) {
    lexer_.fail_expected("'return' and the outputs");
  }
  const Token name = state_.parse_new_name("a statement such as `y = add a, b`, or 'return'");
  std::optional<TensorType> annotation;
  Token annotation_at;
  if (lexer_.accept(":")) {
    annotation_at = lexer_.peek();
    annotation = parse_type(false);
  }
  lexer_.expect("=", "'=' after the name of the result");
  const Token op_at = lexer_.peek();
  Node node = parse_call(state_);
  end_statement();
  node.name = name.text;
  const ValueId id = state_.add(std::move(node), op_at);
  if (annotation && *annotation != state_.graph[id].type) {
    lexer_.fail(annotation_at.text,
                fmt::format("expected '{}' to be {} as annotated, got {}", name.text,
                            print(*annotation), print(state_.graph[id].type)));
  }
}

void Parser::end_statement() {
  const Token& next = lexer_.peek();
  if (next.kind == TokenKind::end) return;  // what is missing then is more than a line's end
  if (next.kind != TokenKind::newline && !next.is("}")) lexer_.fail_expected("the end of the line");
}

}  // namespace

Graph parse(std::string_view text) {
  if (text.size() > kMaxTextBytes) {
    fail_at(
        text, text.substr(0, 1),
        fmt::format("a text has at most {} bytes, this one has {}", kMaxTextBytes, text.size()));
  }
  return Parser(text).run();
}

}  // namespace epifuse::ir
