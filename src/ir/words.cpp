// The words of the `.epi` language, and names that avoid them.
#include "ir/words.h"

#include <algorithm>
#include <array>
#include <unordered_set>

#include "epifuse/dtype.h"
#include "ir/graph.h"

namespace epifuse::ir {
namespace {

constexpr std::array<std::string_view, 5> kKeywords = {"graph", "return", "strides", "inf", "nan"};
constexpr std::size_t kMaxSanitizedLength = 100;

bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
bool is_digit(char c) { return c >= '0' && c <= '9'; }

}  // namespace

std::vector<std::string_view> reserved_words() {
  std::vector<std::string_view> words(kKeywords.begin(), kKeywords.end());
  for (const DType dtype : all_dtypes()) words.push_back(name(dtype));
  for (const OpInfo& row : all_ops()) {
    if (row.op != Op::input) words.push_back(row.name);
  }
  return words;
}

bool is_reserved_word(std::string_view word) {
  static const std::unordered_set<std::string_view> words = [] {
    const std::vector<std::string_view> all = reserved_words();
    return std::unordered_set<std::string_view>(all.begin(), all.end());
  }();
  return words.contains(word);
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
