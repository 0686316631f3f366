// Reads ops, their operands and attributes.
#include "ir/parse_call.h"

#include <fmt/core.h>

#include <cmath>
#include <optional>
#include <utility>
#include <vector>

#include "base/did_you_mean.h"
#include "base/float_types.h"
#include "base/text.h"
#include "ir/source_error.h"
#include "ir/text.h"

namespace epifuse::ir {
namespace {

class CallParser {
 public:
  explicit CallParser(ParseState& state) : state_(state), lexer_(state.lexer) {}
  Node parse();

 private:
  Op parse_op();
  void parse_constant(Node& node);
  void parse_matmul(Node& node);
  void parse_pair(Node& node);
  void parse_block(Node& node);
  void parse_transpose(Node& node);
  void parse_permutation(Node& node, std::size_t rank);
  void parse_slice(Node& node);
  SliceRange parse_range(const Dim& size);
  void parse_elementwise(Node& node);
  ValueId parse_operand();  // a value or a literal
  double parse_literal();
  bool at_number() const;

  ParseState& state_;
  Lexer& lexer_;
};

Op CallParser::parse_op() {
  const Token& word = lexer_.peek();
  const auto op = word.kind == TokenKind::name ? op_from_name(word.text) : std::nullopt;
  if (!op || *op == Op::input || *op == Op::scalar) {
    std::vector<std::string_view> names;
    for (const OpInfo& row : all_ops()) {
      if (row.op != Op::input && row.op != Op::scalar) names.push_back(row.name);
    }
    lexer_.fail_expected("an op",
                         word.kind == TokenKind::name ? did_you_mean(word.text, names) : "");
  }
  lexer_.take();
  return *op;
}

Node CallParser::parse() {
  Node node{.op = parse_op()};
  switch (node.op) {
    case Op::constant: parse_constant(node); break;
    case Op::matmul:
    case Op::grouped_matmul:
    case Op::k_grouped_matmul:
    case Op::scaled_matmul:
    case Op::scaled_grouped_matmul: parse_matmul(node); break;
    case Op::transpose: parse_transpose(node); break;
    case Op::slice: parse_slice(node); break;
    case Op::reshape:
    case Op::broadcast:
      node.args = {state_.parse_value()};
      node.type.shape = parse_dims(lexer_, state_.symbols);
      break;
    case Op::cast:
      node.args = {state_.parse_value()};
      lexer_.expect("->", "'->' and the dtype to round to");
      node.type.dtype = state_.parse_dtype("a dtype such as f32");
      break;
    case Op::row_sum:
    case Op::row_max:
    case Op::col_sum:
    case Op::col_max: node.args = {state_.parse_value()}; break;
    case Op::block_max:
    case Op::block_first: parse_block(node); break;
    case Op::concat:
    case Op::interleave:
    case Op::take_rows: parse_pair(node); break;
    case Op::repeat_rows:
    case Op::put_rows:
      parse_pair(node);
      node.type.shape = parse_dims(lexer_, state_.symbols);
      break;
    default: parse_elementwise(node);
  }
  return node;
}

void CallParser::parse_constant(Node& node) {
  if (!at_number()) lexer_.fail_expected("a number");
  node.value = parse_literal();
}

// matmul = "matmul" value ["^" "T"] "," value ["^" "T"] ["->" dtype] ["promoted"]
//        | "grouped_matmul" value "," value ["^" "T"] "," value ["->" dtype] ["promoted"]
//        | "k_grouped_matmul" value ["^" "T"] "," value ["^" "T"] "," value ["->" dtype] [..]
//        | "scaled_matmul" value ["^" "T"] "," value ["^" "T"] "," value "," value ["->" dtype]
//        | "scaled_grouped_matmul" value "," value ["^" "T"] "," value "," value "," value [..]
void CallParser::parse_matmul(Node& node) {
  const auto operand = [&](bool& transposed) {
    node.args.push_back(state_.parse_value());
    transposed = lexer_.accept("^");
    if (transposed) lexer_.expect("T", "'T' after '^'");
  };
  operand(node.transpose_a);
  lexer_.expect(",", fmt::format("',' and the second operand of '{}'", name(node.op)));
  operand(node.transpose_b);
  const auto value = [&](std::string_view expected) {
    lexer_.expect(",", expected);
    node.args.push_back(state_.parse_value());
  };
  if (is_grouped_matmul(node.op)) value("',' and the ends or sizes of groups");
  if (node.op == Op::k_grouped_matmul) value("',' and the ends of groups along K");
  if (is_scaled_matmul(node.op)) {
    value("',' and the block scales of the first operand");
    value("',' and the block scales of the second operand");
  }
  node.type.dtype = lexer_.accept("->") ? state_.parse_dtype("a dtype such as f32")
                                        : usual_result(state_.graph[node.args[0]].type.dtype);
  node.promoted = !is_scaled_matmul(node.op) && lexer_.accept("promoted");
}

// pair = ( "concat" | "interleave" | "take_rows" ) value "," value
//      | ( "repeat_rows" | "put_rows" ) value "," value "[" sizes "]"
void CallParser::parse_pair(Node& node) {
  node.args = {state_.parse_value()};
  lexer_.expect(",", fmt::format("',' and the second operand of '{}'", name(node.op)));
  node.args.push_back(state_.parse_value());
}

// block = ( "block_max" | "block_first" ) value [ "[" "128" "," "128" "]" ]; alone: of one row
void CallParser::parse_block(Node& node) {
  node.args = {state_.parse_value()};
  const Token at = lexer_.peek();
  if (!at.is("[")) return;
  if (parse_dims(lexer_, state_.symbols) != Shape{kSquareRows, kBlockColumns}) {
    lexer_.fail(at.text, fmt::format("expected [{}, {}], or nothing for blocks of one row",
                                     kSquareRows, kBlockColumns));
  }
  node.block_rows = kSquareRows;
}

// transpose = "transpose" value [ "[" integer { "," integer } "]" ]; alone: swaps the last two dims
void CallParser::parse_transpose(Node& node) {
  node.args = {state_.parse_value()};
  const Node& operand = state_.graph[node.args[0]];
  const std::size_t rank = operand.type.shape.size();
  if (lexer_.accept("[")) return parse_permutation(node, rank);
  if (rank < 2) {
    lexer_.fail_expected(fmt::format("the permutation, as {}: {} has no last two dims to swap",
                                     operand.name, print(operand.type)));
  }
  for (std::size_t i = 0; i < rank; ++i) node.permutation.push_back(static_cast<int>(i));
  std::swap(node.permutation[rank - 1], node.permutation[rank - 2]);
}

void CallParser::parse_permutation(Node& node, std::size_t rank) {
  while (!lexer_.accept("]")) {
    if (!node.permutation.empty()) lexer_.expect(",", "',' or ']'");
    const Token at = lexer_.peek();
    const std::int64_t dim = parse_integer(lexer_, "a dim of the operand, counted from 0");
    if (dim >= static_cast<std::int64_t>(rank)) {
      lexer_.fail(at.text,
                  fmt::format("expected a dim below {}, the number of dims, got {}", rank, dim));
    }
    node.permutation.push_back(static_cast<int>(dim));
    if (node.permutation.size() > rank) {
      lexer_.fail(at.text, fmt::format("expected each of the {} dims once, got more", rank));
    }
  }
}

void CallParser::parse_slice(Node& node) {
  node.args = {state_.parse_value()};
  const Shape& shape = state_.graph[node.args[0]].type.shape;
  lexer_.expect("[", "'[' and ranges such as [0:M, 0:768]");
  while (!lexer_.peek().is("]")) {
    if (!node.ranges.empty()) lexer_.expect(",", "',' or ']'");
    if (node.ranges.size() == shape.size()) {
      lexer_.fail_expected(fmt::format("']' after {} ranges, one for each dim", shape.size()));
    }
    node.ranges.push_back(parse_range(shape[node.ranges.size()]));
  }
  if (node.ranges.size() != shape.size()) {
    lexer_.fail_expected(fmt::format("',' and a range for each of the {} dims", shape.size()));
  }
  lexer_.take();
}

// range = [size] ":" [size] [":" integer]; what is left out means 0, the dim and 1
SliceRange CallParser::parse_range(const Dim& size) {
  const auto at_range_end = [&] {
    const Token& next = lexer_.peek();
    return next.is(":") || next.is(",") || next.is("]");
  };
  SliceRange range{Dim{}, size, 1};
  if (!lexer_.peek().is(":")) range.start = parse_dim(lexer_, state_.symbols);
  lexer_.expect(":", "':' within the range start:stop");
  if (!at_range_end()) range.stop = parse_dim(lexer_, state_.symbols);
  if (lexer_.accept(":")) {
    const Token at = lexer_.peek();
    range.step = parse_integer(lexer_, "a step of at least 1");
    if (range.step < 1) lexer_.fail(at.text, "expected a step of at least 1, got 0");
  }
  return range;
}

void CallParser::parse_elementwise(Node& node) {
  const OpInfo& row = info(node.op);
  for (int i = 0; i < row.arity; ++i) {
    if (i > 0) {
      lexer_.expect(",",
                    fmt::format("',' and operand {} of {} of '{}'", i + 1, row.arity, row.name));
    }
    node.args.push_back(parse_operand());
  }
  if (lexer_.peek().is(",")) {
    lexer_.fail_expected(fmt::format("the end of the line after the {} operand{} of '{}'",
                                     row.arity, row.arity == 1 ? "" : "s", row.name));
  }
}

ValueId CallParser::parse_operand() {
  if (!at_number()) return state_.parse_value("a value or a number");
  const Token at = lexer_.peek();
  Node node{.op = Op::constant, .name = state_.literal_names.next()};
  node.value = parse_literal();
  return state_.add(std::move(node), at);
}

bool CallParser::at_number() const {
  const Token& next = lexer_.peek();
  return next.kind == TokenKind::number || next.is("-") || next.is("inf") || next.is("nan");
}

// number = ["-"] (decimal | "inf") | "nan"
double CallParser::parse_literal() {
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

}  // namespace

Node parse_call(ParseState& state) { return CallParser(state).parse(); }

}  // namespace epifuse::ir
