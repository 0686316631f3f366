// Splits `.epi` text into tokens, one at a time.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace epifuse::ir {

enum class TokenKind : std::uint8_t { name, number, punctuation, newline, end, unknown };

struct Token {
  TokenKind kind = TokenKind::end;
  std::string_view text;  // a part of the source; empty at its end

  bool is(std::string_view word) const {
    return text == word && (kind == TokenKind::name || kind == TokenKind::punctuation);
  }
};

// "'add'", "the end of the line", ...: how errors name what came.
std::string describe(const Token& token);

// The tokens of a text with one token of lookahead. Spaces and comments are dropped; so are
// newlines inside ( ) and [ ]. Throws ParseError for names and numbers beyond the limits.
class Lexer {
 public:
  explicit Lexer(std::string_view text);

  const Token& peek() const { return token_; }
  Token take();
  // Takes the next token when it is this word or sign.
  bool accept(std::string_view word);
  // Takes it, or fails saying that `expected` was expected (the word itself when empty).
  Token expect(std::string_view word, std::string_view expected = {});
  void skip_newlines();

  // Throws ParseError at `where`, a part of the text.
  [[noreturn]] void fail(std::string_view where, const std::string& message) const;
  // "expected <expected>, got <next token><hint>", at the next token.
  [[noreturn]] void fail_expected(std::string_view expected, std::string_view hint = {}) const;

 private:
  Token scan();
  Token scan_number();
  Token finish(TokenKind kind, std::size_t length);

  std::string_view text_;
  std::size_t at_ = 0;
  int num_open_ = 0;  // ( and [ not closed yet
  Token token_;
};

}  // namespace epifuse::ir
