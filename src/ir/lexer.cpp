// Splits `.epi` text into tokens.
#include "ir/lexer.h"

#include <fmt/core.h>

#include <algorithm>

#include "ir/limits.h"
#include "ir/source_error.h"

namespace epifuse::ir {
namespace {

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_name_char(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || is_digit(c);
}

std::size_t count_digits(std::string_view text, std::size_t from) {
  std::size_t end = from;
  while (end < text.size() && is_digit(text[end])) ++end;
  return end - from;
}

}  // namespace

std::string describe(const Token& token) {
  switch (token.kind) {
    case TokenKind::newline: return "the end of the line";
    case TokenKind::end: return "the end of the text";
    case TokenKind::unknown:
      if (token.text.size() == 1) return fmt::format("the character '{}'", escape(token.text));
      [[fallthrough]];
    default: return fmt::format("'{}'", escape(token.text));
  }
}

Lexer::Lexer(std::string_view text) : text_(text) { token_ = scan(); }

Token Lexer::take() {
  const Token taken = token_;
  if (taken.kind != TokenKind::end) token_ = scan();
  return taken;
}

bool Lexer::accept(std::string_view word) {
  if (!token_.is(word)) return false;
  take();
  return true;
}

Token Lexer::expect(std::string_view word, std::string_view expected) {
  if (!token_.is(word)) {
    fail_expected(expected.empty() ? fmt::format("'{}'", word) : std::string(expected));
  }
  return take();
}

void Lexer::skip_newlines() {
  while (token_.kind == TokenKind::newline) take();
}

void Lexer::fail(std::string_view where, const std::string& message) const {
  fail_at(text_, where, message);
}

void Lexer::fail_expected(std::string_view expected, std::string_view hint) const {
  fail(token_.text, fmt::format("expected {}, got {}{}", expected, describe(token_), hint));
}

Token Lexer::finish(TokenKind kind, std::size_t length) {
  const Token token{kind, text_.substr(at_, length)};
  at_ += length;
  return token;
}

// Digits, then optionally a fraction and an exponent: 768, 0.5, 1e-05. Letters that follow at once
// belong to it, so that `3x` is one wrong word.
Token Lexer::scan_number() {
  std::size_t end = at_ + count_digits(text_, at_);
  if (end + 1 < text_.size() && text_[end] == '.' && is_digit(text_[end + 1])) {
    end += 1 + count_digits(text_, end + 1);
  }
  if (end < text_.size() && (text_[end] == 'e' || text_[end] == 'E')) {
    std::size_t digits = end + 1;
    if (digits < text_.size() && (text_[digits] == '+' || text_[digits] == '-')) ++digits;
    if (const std::size_t count = count_digits(text_, digits); count > 0) end = digits + count;
  }
  TokenKind kind = TokenKind::number;
  while (end < text_.size() && (is_name_char(text_[end]) || text_[end] == '.')) {
    kind = TokenKind::unknown;
    ++end;
  }
  const Token token = finish(kind, end - at_);
  if (token.text.size() > kMaxNumberLength) {
    fail(token.text, fmt::format("expected a number of at most {} characters, got one of {}",
                                 kMaxNumberLength, token.text.size()));
  }
  return token;
}

Token Lexer::scan() {
  constexpr std::string_view kSigns = "()[]{},:=^+-*";
  while (at_ < text_.size()) {
    const char c = text_[at_];
    if (c == '#') {
      at_ = std::min(text_.find('\n', at_), text_.size());
    } else if (c == ' ' || c == '\t' || c == '\r' || (c == '\n' && num_open_ > 0)) {
      ++at_;
    } else {
      break;
    }
  }
  if (at_ == text_.size()) return Token{};
  const char c = text_[at_];
  if (c == '\n') return finish(TokenKind::newline, 1);
  if (is_digit(c)) return scan_number();
  if (is_name_char(c)) {
    std::size_t end = at_ + 1;
    while (end < text_.size() && is_name_char(text_[end])) ++end;
    const Token token = finish(TokenKind::name, end - at_);
    if (token.text.size() > kMaxNameLength) {
      fail(token.text, fmt::format("expected a name of at most {} characters, got one of {}",
                                   kMaxNameLength, token.text.size()));
    }
    return token;
  }
  if (c == '-' && text_.substr(at_, 2) == "->") return finish(TokenKind::punctuation, 2);
  if (kSigns.find(c) == std::string_view::npos) return finish(TokenKind::unknown, 1);
  if (c == '(' || c == '[') ++num_open_;
  if ((c == ')' || c == ']') && num_open_ > 0) --num_open_;
  return finish(TokenKind::punctuation, 1);
}

}  // namespace epifuse::ir
