// The words of the `.epi` language, and names that avoid them.
#include "ir/words.h"

#include <algorithm>
#include <array>

#include "epifuse/dtype.h"
#include "ir/graph.h"

namespace epifuse::ir {
namespace {

constexpr std::array<std::string_view, 5> kKeywords = {"graph", "return", "strides", "inf", "nan"};
constexpr std::size_t kMaxSanitizedLength = 100;

bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
bool is_digit(char c) { return c >= '0' && c <= '9'; }

}  // namespace

bool is_reserved_word(std::string_view word) {
  if (std::find(kKeywords.begin(), kKeywords.end(), word) != kKeywords.end()) return true;
  if (dtype_from_name(word)) return true;
  const std::optional<Op> op = op_from_name(word);
  return op && *op != Op::input;
}

bool is_identifier(std::string_view word) {
  if (word.empty() || is_digit(word.front())) return false;
  return std::all_of(word.begin(), word.end(), [](char c) { return is_letter(c) || is_digit(c); });
}

std::string sanitize(std::string_view text) {
  std::string word(text.substr(0, kMaxSanitizedLength));
  for (char& c : word) {
    if (!is_letter(c) && !is_digit(c)) c = '_';
  }
  if (word.empty() || is_digit(word.front())) word.insert(word.begin(), '_');
  if (is_reserved_word(word)) word += '_';
  return word;
}

}  // namespace epifuse::ir
