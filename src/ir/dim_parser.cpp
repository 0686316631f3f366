// Reads sizes: polynomials over symbols, with the limits that keep them small.
#include "ir/dim_parser.h"

#include <fmt/core.h>

#include <charconv>
#include <functional>

#include "base/did_you_mean.h"
#include "epifuse/error.h"
#include "ir/limits.h"
#include "ir/source_error.h"

namespace epifuse::ir {
namespace {

constexpr std::string_view kExpectedSize = "a size such as 768, M or 2*M+1";

class DimParser {
 public:
  DimParser(Lexer& lexer, Symbols& symbols) : lexer_(lexer), symbols_(symbols) {}

  // sum = product { ("+" | "-") product }
  Dim sum(int depth) {
    Dim left = product(depth, false);
    while (lexer_.peek().is("+") || lexer_.peek().is("-")) {
      const Token sign = lexer_.take();
      const Dim right = product(depth, sign.is("-"));
      left = checked(sign, [&] { return left + right; });
    }
    return left;
  }

 private:
  // product = factor { "*" factor }, negated on request. The sign goes to the first factor, so that
  // -9223372036854775808 can be read.
  Dim product(int depth, bool negated) {
    Dim left = factor(depth, negated);
    while (lexer_.peek().is("*")) {
      const Token sign = lexer_.take();
      const Dim right = factor(depth, false);
      left = checked(sign, [&] { return left * right; });
    }
    return left;
  }

  // factor = integer | symbol | "-" factor | "(" sum ")"
  Dim factor(int depth, bool negated) {
    const Token first = lexer_.peek();
    if (depth > kMaxDimDepth) {
      lexer_.fail(first.text, fmt::format("a size nests at most {} deep", kMaxDimDepth));
    }
    if (first.kind == TokenKind::number) return parse_integer(lexer_, kExpectedSize, negated);
    Dim dim;
    if (lexer_.accept("-")) {
      return factor(depth + 1, !negated);
    } else if (lexer_.accept("(")) {
      dim = sum(depth + 1);
      lexer_.expect(")", "')' after the size");
    } else if (first.kind == TokenKind::name) {
      dim = symbol();
    } else {
      lexer_.fail_expected(kExpectedSize);
    }
    return negated ? checked(first, [&] { return Dim{} - dim; }) : dim;
  }

  Dim symbol() {
    const Token& next = lexer_.peek();
    if (symbols_.declared.find(next.text) == symbols_.declared.end()) {
      if (!symbols_.open) fail_undeclared(next);
      symbols_.declared.emplace(next.text);
    }
    return Dim(lexer_.take().text);
  }

  [[noreturn]] void fail_undeclared(const Token& name) {
    const std::vector<std::string_view> known(symbols_.declared.begin(), symbols_.declared.end());
    lexer_.fail(name.text, fmt::format("expected a size symbol that the type of an input uses, got "
                                       "'{}'{}; nothing else could give it a value",
                                       escape(name.text), did_you_mean(name.text, known)));
  }

  // Arithmetic on sizes fails when they overflow or grow too long: an error at `at`.
  Dim checked(const Token& at, const std::function<Dim()>& compute) const {
    try {
      return compute();
    } catch (const GraphError& error) {
      lexer_.fail(at.text, error.what());
    }
  }

  Lexer& lexer_;
  Symbols& symbols_;
};

}  // namespace

Dim parse_dim(Lexer& lexer, Symbols& symbols) { return DimParser(lexer, symbols).sum(0); }

std::vector<Dim> parse_dims(Lexer& lexer, Symbols& symbols) {
  std::vector<Dim> dims;
  const Token open = lexer.expect("[", "'[' and sizes such as [M, 768]");
  while (!lexer.peek().is("]")) {
    if (!dims.empty()) lexer.expect(",", "',' or ']'");
    dims.push_back(parse_dim(lexer, symbols));
    if (dims.size() > kMaxRank) {
      lexer.fail(open.text,
                 fmt::format("a tensor has at most {} dims, this one has more", kMaxRank));
    }
  }
  lexer.take();
  return dims;
}

std::int64_t parse_integer(Lexer& lexer, std::string_view expected, bool negated) {
  const Token& token = lexer.peek();
  if (token.kind != TokenKind::number) lexer.fail_expected(expected);
  const std::string digits = fmt::format("{}{}", negated ? "-" : "", token.text);
  std::int64_t value = 0;
  const auto [stop, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  if (error == std::errc::result_out_of_range) {
    lexer.fail_expected(expected, ", which does not fit 64 bits");
  }
  if (stop != digits.data() + digits.size()) lexer.fail_expected(expected);
  lexer.take();
  return value;
}

}  // namespace epifuse::ir
