// Reads `.epi` text into a graph: recursive descent, one statement a line (docs/epi.md).
#include <fmt/core.h>

#include <charconv>
#include <cmath>
#include <map>
#include <set>

#include "base/float_types.h"
#include "base/text.h"
#include "epifuse/error.h"
#include "ir/dim_parser.h"
#include "ir/graph.h"
#include "ir/lexer.h"
#include "ir/limits.h"
#include "ir/source_error.h"
#include "ir/text.h"
#include "ir/words.h"

namespace epifuse::ir {
namespace {

// Names c0, c1, ... that occur nowhere in the text: for the constants that literals become.
class LiteralNames {
 public:
  explicit LiteralNames(std::string_view text) {
    Lexer lexer(text);
    while (lexer.peek().kind != TokenKind::end) {
      if (lexer.peek().text.front() == 'c') taken_.insert(lexer.peek().text);
      lexer.take();
    }
  }
  std::string next() {
    std::string name;
    do {
      name = fmt::format("c{}", num_made_++);
    } while (taken_.count(name) > 0);
    return name;
  }

 private:
  std::set<std::string_view> taken_;
  std::size_t num_made_ = 0;
};

class Parser {
 public:
  explicit Parser(std::string_view text) : lexer_(text), literal_names_(text) {}
  Graph run();

 private:
  // Header and outputs.
  void parse_input();
  TensorType parse_type(bool with_strides);
  DType parse_dtype(std::string_view expected);
  void parse_return();
  void check_output(const Output& output, const Token& at, std::set<std::string>& names) const;

  // Statements.
  void parse_statement();
  Op parse_op();
  Node parse_call(Op op);
  void end_statement();

  // What follows the op's name.
  void parse_constant(Node& node);
  void parse_matmul(Node& node);
  void parse_transpose(Node& node);
  void parse_slice(Node& node);
  void parse_elementwise(Node& node);
  SliceRange parse_range(const Shape& shape, std::size_t dim);

  // Operands and names.
  ValueId parse_value();
  ValueId parse_operand();  // a value or a literal
  double parse_literal();
  bool at_number() const;
  Token parse_new_name(std::string_view expected);
  std::string guess_value(std::string_view name) const;

  // Appends a node whose result type is inferred; `at` is where its errors point.
  ValueId add(Node node, const Token& at);

  Lexer lexer_;
  LiteralNames literal_names_;
  Symbols symbols_;
  Graph graph_;
  std::map<std::string, ValueId, std::less<>> ids_;
};

Graph Parser::run() {
  lexer_.skip_newlines();
  lexer_.expect("graph", "'graph' and its name");
  graph_.name = parse_new_name("the name of the graph").text;
  lexer_.expect("(", "'(' and the inputs");
  while (!lexer_.peek().is(")")) {
    if (!graph_.nodes.empty()) lexer_.expect(",", "',' or ')'");
    parse_input();
  }
  lexer_.take();
  symbols_.open = false;
  lexer_.expect("{");
  lexer_.skip_newlines();
  while (!lexer_.peek().is("return")) {
    parse_statement();
    lexer_.skip_newlines();
  }
  parse_return();
  lexer_.skip_newlines();
  lexer_.expect("}", "'}' after the outputs");
  lexer_.skip_newlines();
  if (lexer_.peek().kind != TokenKind::end) lexer_.fail_expected("nothing after the graph");
  return std::move(graph_);
}

// input = name ":" ("scalar" | type)
void Parser::parse_input() {
  const Token name = parse_new_name("the name of an input");
  lexer_.expect(":", "':' and the type of the input");
  Node node{.op = Op::input, .name = std::string(name.text)};
  const Token type = lexer_.peek();
  if (lexer_.accept("scalar")) {
    node.op = Op::scalar;
  } else {
    node.type = parse_type(true);
  }
  add(std::move(node), type);
}

// type = dtype "[" sizes "]" [ "strides" "[" sizes "]" ]
TensorType Parser::parse_type(bool with_strides) {
  TensorType type;
  type.dtype = parse_dtype(with_strides ? "a type such as bf16[M, 768], or 'scalar'"
                                        : "a type such as bf16[M, 768]");
  type.shape = parse_dims(lexer_, symbols_);
  if (with_strides && lexer_.accept("strides")) type.strides = parse_dims(lexer_, symbols_);
  return type;
}

DType Parser::parse_dtype(std::string_view expected) {
  constexpr std::string_view kNames[] = {"f32", "bf16", "f16", "e4m3", "e5m2", "bool", "scalar"};
  const Token& word = lexer_.peek();
  const auto dtype = word.kind == TokenKind::name ? dtype_from_name(word.text) : std::nullopt;
  if (!dtype) lexer_.fail_expected(expected, did_you_mean(word.text, kNames));
  lexer_.take();
  return *dtype;
}

// return = "return" value [ "as" name ] { "," value [ "as" name ] }
void Parser::parse_return() {
  lexer_.expect("return");
  std::set<std::string> names;
  do {
    const Token value = lexer_.peek();
    Output output{"", parse_value()};
    Token name = value;
    if (lexer_.accept("as")) {
      name = lexer_.peek();
      if (name.kind != TokenKind::name) lexer_.fail_expected("the name of the output");
      lexer_.take();
    }
    output.name = name.text;
    check_output(output, name, names);
    graph_.outputs.push_back(std::move(output));
  } while (lexer_.accept(","));
  end_statement();
}

void Parser::check_output(const Output& output, const Token& at,
                          std::set<std::string>& names) const {
  if (is_reserved_word(output.name)) {
    lexer_.fail(at.text, fmt::format("expected the name of the output, got '{}', a word of the "
                                     "language",
                                     output.name));
  }
  if (!names.insert(output.name).second) {
    lexer_.fail(at.text, fmt::format("there is already an output '{}': name this one differently, "
                                     "as in `{} as other`",
                                     output.name, output.name));
  }
  const auto found = ids_.find(output.name);
  if (found == ids_.end()) return;
  const Op op = graph_[found->second].op;
  if (op == Op::input || op == Op::scalar) {
    lexer_.fail(at.text, fmt::format("an output cannot have the name of the input '{}': name it "
                                     "differently, as in `{} as other`",
                                     output.name, output.name));
  }
}

// statement = name [ ":" type ] "=" call
void Parser::parse_statement() {
  if (lexer_.peek().is("}") || lexer_.peek().kind == TokenKind::end) {
    lexer_.fail_expected("'return' and the outputs");
  }
  const Token name = parse_new_name("a statement such as `y = add a, b`, or 'return'");
  std::optional<TensorType> annotation;
  Token annotation_at;
  if (lexer_.accept(":")) {
    annotation_at = lexer_.peek();
    annotation = parse_type(false);
  }
  lexer_.expect("=", "'=' after the name of the result");
  const Token op_at = lexer_.peek();
  Node node = parse_call(parse_op());
  end_statement();
  node.name = name.text;
  const ValueId id = add(std::move(node), op_at);
  if (annotation && *annotation != graph_[id].type) {
    lexer_.fail(annotation_at.text,
                fmt::format("'{}' is annotated {}, but its type is {}", name.text,
                            print(*annotation), print(graph_[id].type)));
  }
}

Op Parser::parse_op() {
  const Token& word = lexer_.peek();
  const auto op = word.kind == TokenKind::name ? op_from_name(word.text) : std::nullopt;
  if (!op || *op == Op::input || *op == Op::scalar) {
    std::vector<std::string_view> names;
    for (const OpInfo& row : all_ops()) names.push_back(row.name);
    lexer_.fail_expected("an op",
                         word.kind == TokenKind::name ? did_you_mean(word.text, names) : "");
  }
  lexer_.take();
  return *op;
}

Node Parser::parse_call(Op op) {
  Node node{.op = op};
  switch (op) {
    case Op::constant: parse_constant(node); break;
    case Op::matmul: parse_matmul(node); break;
    case Op::transpose: parse_transpose(node); break;
    case Op::slice: parse_slice(node); break;
    case Op::reshape:
    case Op::broadcast:
      node.args = {parse_value()};
      node.type.shape = parse_dims(lexer_, symbols_);
      break;
    case Op::cast:
      node.args = {parse_value()};
      lexer_.expect("->", "'->' and the dtype to round to");
      node.type.dtype = parse_dtype("a dtype such as f32");
      break;
    case Op::row_sum:
    case Op::row_max:
    case Op::col_sum:
    case Op::col_max: node.args = {parse_value()}; break;
    default: parse_elementwise(node);
  }
  return node;
}

void Parser::end_statement() {
  const Token& next = lexer_.peek();
  if (next.kind != TokenKind::newline && !next.is("}")) lexer_.fail_expected("the end of the line");
}

void Parser::parse_constant(Node& node) {
  if (!at_number()) lexer_.fail_expected("a number");
  node.value = parse_literal();
}

// matmul = "matmul" value ["^" "T"] "," value ["^" "T"] ["->" dtype]
void Parser::parse_matmul(Node& node) {
  const auto operand = [&](bool& transposed) {
    node.args.push_back(parse_value());
    transposed = lexer_.accept("^");
    if (transposed) lexer_.expect("T", "'T' after '^'");
  };
  operand(node.transpose_a);
  lexer_.expect(",", "',' and the second operand of 'matmul'");
  operand(node.transpose_b);
  node.type.dtype =
      lexer_.accept("->") ? parse_dtype("a dtype such as f32") : graph_[node.args[0]].type.dtype;
}

// transpose = "transpose" value [ "[" integer { "," integer } "]" ]; alone: swaps the last two dims
void Parser::parse_transpose(Node& node) {
  node.args = {parse_value()};
  const std::size_t rank = graph_[node.args[0]].type.shape.size();
  if (!lexer_.peek().is("[")) {
    if (rank < 2) lexer_.fail_expected("a permutation, the value having fewer than 2 dims,");
    for (std::size_t i = 0; i < rank; ++i) node.permutation.push_back(static_cast<int>(i));
    std::swap(node.permutation[rank - 1], node.permutation[rank - 2]);
    return;
  }
  lexer_.take();
  while (!lexer_.peek().is("]")) {
    if (!node.permutation.empty()) lexer_.expect(",", "',' or ']'");
    const Token at = lexer_.peek();
    const std::int64_t dim = parse_integer(lexer_, "the number of a dim, counted from 0,");
    if (dim >= static_cast<std::int64_t>(rank)) {
      lexer_.fail(at.text,
                  fmt::format("expected a dim below {}, the number of dims, got {}", rank, dim));
    }
    node.permutation.push_back(static_cast<int>(dim));
    if (node.permutation.size() > kMaxRank) lexer_.fail_expected("']'");
  }
  lexer_.take();
}

void Parser::parse_slice(Node& node) {
  node.args = {parse_value()};
  const Shape& shape = graph_[node.args[0]].type.shape;
  lexer_.expect("[", "'[' and ranges such as [0:M, 0:768]");
  while (!lexer_.peek().is("]")) {
    if (!node.ranges.empty()) lexer_.expect(",", "',' or ']'");
    if (node.ranges.size() == shape.size()) {
      lexer_.fail_expected(fmt::format("']' after {} ranges, one for each dim", shape.size()));
    }
    node.ranges.push_back(parse_range(shape, node.ranges.size()));
  }
  if (node.ranges.size() != shape.size()) {
    lexer_.fail_expected(fmt::format("',' and {} ranges, one for each dim", shape.size()));
  }
  lexer_.take();
}

// range = [size] ":" [size] [":" integer]; what is left out means 0, the dim and 1
SliceRange Parser::parse_range(const Shape& shape, std::size_t dim) {
  const auto at_range_end = [&] {
    const Token& next = lexer_.peek();
    return next.is(":") || next.is(",") || next.is("]");
  };
  SliceRange range{Dim{}, shape[dim], 1};
  if (!lexer_.peek().is(":")) range.start = parse_dim(lexer_, symbols_);
  lexer_.expect(":", "':' within the range start:stop");
  if (!at_range_end()) range.stop = parse_dim(lexer_, symbols_);
  if (lexer_.accept(":")) {
    const Token at = lexer_.peek();
    range.step = parse_integer(lexer_, "a step of at least 1");
    if (range.step < 1) lexer_.fail(at.text, "expected a step of at least 1, got 0");
  }
  return range;
}

void Parser::parse_elementwise(Node& node) {
  const OpInfo& row = info(node.op);
  for (int i = 0; i < row.arity; ++i) {
    if (i > 0) {
      lexer_.expect(",", fmt::format("',' and operand {} of the {} that '{}' takes", i + 1,
                                     row.arity, row.name));
    }
    node.args.push_back(parse_operand());
  }
  if (lexer_.peek().is(",")) {
    lexer_.fail_expected(fmt::format("the end of the line after the {} operand{} of '{}'",
                                     row.arity, row.arity == 1 ? "" : "s", row.name));
  }
}

ValueId Parser::parse_value() {
  const Token& word = lexer_.peek();
  if (word.kind != TokenKind::name) lexer_.fail_expected("a value");
  const auto found = ids_.find(word.text);
  if (found == ids_.end()) {
    lexer_.fail(word.text, fmt::format("expected a value, got unknown name '{}'{}", word.text,
                                       guess_value(word.text)));
  }
  lexer_.take();
  return found->second;
}

ValueId Parser::parse_operand() {
  if (!at_number()) return parse_value();
  const Token at = lexer_.peek();
  Node node{.op = Op::constant, .name = literal_names_.next()};
  node.value = parse_literal();
  return add(std::move(node), at);
}

bool Parser::at_number() const {
  const Token& next = lexer_.peek();
  return next.kind == TokenKind::number || next.is("-") || next.is("inf") || next.is("nan");
}

// number = ["-"] (decimal | "inf") | "nan"
double Parser::parse_literal() {
  const bool negative = lexer_.accept("-");
  const Token word = lexer_.take();
  const bool is_number = word.kind == TokenKind::number || word.is("inf");
  if (!is_number && (negative || !word.is("nan"))) {
    lexer_.fail(word.text, fmt::format("expected a number, got {}", describe(word)));
  }
  const std::optional<double> value = parse_number(word.text);
  if (!value || (std::isinf(round_to(*value, DType::f32)) && !word.is("inf"))) {
    lexer_.fail(word.text, fmt::format("expected a number in the range of f32, got '{}'; infinity "
                                       "is written inf",
                                       word.text));
  }
  return negative ? -*value : *value;
}

Token Parser::parse_new_name(std::string_view expected) {
  const Token& name = lexer_.peek();
  if (name.kind != TokenKind::name) lexer_.fail_expected(expected);
  if (is_reserved_word(name.text)) {
    lexer_.fail_expected(expected, ", a word of the language");
  }
  if (ids_.find(name.text) != ids_.end()) {
    lexer_.fail(name.text, fmt::format("'{}' is defined already; a name has one value", name.text));
  }
  return lexer_.take();
}

std::string Parser::guess_value(std::string_view name) const {
  constexpr std::size_t kMaxGuesses = 10'000;
  std::vector<std::string_view> known;
  for (const auto& [other, id] : ids_) {
    if (known.size() < kMaxGuesses) known.push_back(other);
  }
  return did_you_mean(name, known);
}

ValueId Parser::add(Node node, const Token& at) {
  if (graph_.nodes.size() == kMaxNodes) {
    lexer_.fail(at.text, fmt::format("a graph has at most {} values, this one more", kMaxNodes));
  }
  try {
    node.type = infer_type(graph_, node);
  } catch (const GraphError& error) {
    lexer_.fail(at.text, error.what());
  } catch (const ArgumentError& error) {  // sizes that overflow
    lexer_.fail(at.text, error.what());
  }
  const auto id = static_cast<ValueId>(graph_.nodes.size());
  ids_.emplace(node.name, id);
  graph_.nodes.push_back(std::move(node));
  return id;
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
