// Errors that point into a text.
#include "ir/source_error.h"

#include <fmt/core.h>

#include <algorithm>
#include <numeric>
#include <vector>

#include "epifuse/error.h"

namespace epifuse::ir {
namespace {

constexpr std::size_t kContextBytes = 80;  // shown of a line on either side of the place
constexpr std::size_t kMaxGuessLength = 40;

char lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

// Insertions, deletions and substitutions from `a` to `b`, case aside (Levenshtein distance).
std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 0; i < a.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i + 1;
    for (std::size_t j = 0; j < b.size(); ++j) {
      const std::size_t substituted = diagonal + (lower(a[i]) != lower(b[j]));
      diagonal = row[j + 1];
      row[j + 1] = std::min({diagonal + 1, row[j] + 1, substituted});
    }
  }
  return row.back();
}

}  // namespace

void fail_at(std::string_view text, std::string_view where, const std::string& message) {
  const auto offset =
      where.empty() ? text.size() : static_cast<std::size_t>(where.data() - text.data());
  const auto before = text.substr(0, offset);
  const auto last_newline = before.rfind('\n');
  const std::size_t start = last_newline == std::string_view::npos ? 0 : last_newline + 1;
  const auto line = 1 + std::count(before.begin(), before.end(), '\n');
  const std::size_t column = offset - start + 1;

  const std::size_t shown_from = std::max(start, offset - std::min(offset, kContextBytes));
  std::string_view rest = text.substr(offset, kContextBytes);
  rest = rest.substr(0, rest.find_first_of("\r\n"));
  const std::string left = escape(text.substr(shown_from, offset - shown_from), kContextBytes);
  throw ParseError(fmt::format("line {}, column {}: {}\n{}{}\n{}^", line, column, message, left,
                               escape(rest, kContextBytes), std::string(left.size(), ' ')),
                   static_cast<int>(line), static_cast<int>(column));
}

std::string escape(std::string_view bytes, std::size_t max_length) {
  std::string out;
  for (const char c : bytes.substr(0, max_length)) {
    if (c == '\t') {
      out += ' ';
    } else if (c >= ' ' && c <= '~') {
      out += c;
    } else {
      out += fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
    }
  }
  if (bytes.size() > max_length) out += "...";
  return out;
}

std::string did_you_mean(std::string_view word, std::span<const std::string_view> choices) {
  if (word.size() > kMaxGuessLength) return "";
  std::size_t best = word.size() <= 3 ? 2 : 3;  // one more than the errors forgiven
  std::string_view guess;
  for (const std::string_view choice : choices) {
    const std::size_t shorter = std::min(word.size(), choice.size());
    const std::size_t longer = std::max(word.size(), choice.size());
    if (longer - shorter >= best) continue;
    const std::size_t distance = edit_distance(word, choice);
    if (distance < std::min(best, word.size())) {
      best = distance;
      guess = choice;
    }
  }
  return guess.empty() ? "" : fmt::format(" (did you mean '{}'?)", guess);
}

}  // namespace epifuse::ir
