// Errors that point into a text.
#include "ir/source_error.h"

#include <fmt/core.h>

#include <algorithm>

#include "epifuse/error.h"

namespace epifuse::ir {
namespace {

constexpr std::size_t kContextBytes = 80;  // shown of a line on either side of the place

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

}  // namespace epifuse::ir
