// Text from outside (file names, messages that hold it) as a terminal may show it.
#include "base/printable.h"

#include <fmt/core.h>

#include <cstdint>

namespace epifuse {
namespace {

struct Character {
  std::uint32_t code = 0;
  std::size_t length = 0;  // bytes; 0: no UTF-8
};

std::uint8_t byte_at(std::string_view text, std::size_t i) {
  return static_cast<std::uint8_t>(text[i]);
}

// The first character: of the shortest form, no surrogate, at most U+10FFFF.
Character first_character(std::string_view text) {
  constexpr std::uint32_t kSmallest[] = {0, 0, 0x80, 0x800, 0x10000};
  const std::uint8_t lead = byte_at(text, 0);
  if (lead < 0x80) return {lead, 1};
  const std::size_t length = lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : 2;
  if (lead < 0xc0 || lead > 0xf7 || text.size() < length) return {};
  std::uint32_t code = lead & (0x7fu >> length);
  for (std::size_t i = 1; i < length; ++i) {
    const std::uint8_t next = byte_at(text, i);
    if ((next & 0xc0u) != 0x80u) return {};
    code = code << 6 | (next & 0x3fu);
  }
  if (code < kSmallest[length] || code > 0x10ffff || (code >= 0xd800 && code <= 0xdfff)) return {};
  return {code, length};
}

bool is_shown(std::uint32_t code) {
  const bool control = code < 0x20 || (code >= 0x7f && code < 0xa0);
  const bool separates = code == 0x2028 || code == 0x2029;
  const bool turns = code == 0x200e || code == 0x200f || (code >= 0x202a && code <= 0x202e) ||
                     (code >= 0x2066 && code <= 0x2069);
  return !control && !separates && !turns;
}

std::string shown(std::string_view text, std::size_t max_bytes, bool keep_newlines) {
  constexpr std::string_view kCut = "...";
  std::string out;
  std::size_t fits = 0;  // bytes of `out` that leave room for kCut
  while (!text.empty()) {
    const Character next = first_character(text);
    const std::size_t length = next.length == 0 ? 1 : next.length;
    if (next.length > 0 && (is_shown(next.code) || (keep_newlines && next.code == '\n'))) {
      out += text.substr(0, length);
    } else {
      for (std::size_t i = 0; i < length; ++i) out += fmt::format("\\x{:02x}", byte_at(text, i));
    }
    if (out.size() > max_bytes) return out.substr(0, fits) + std::string(kCut);
    if (out.size() + kCut.size() <= max_bytes) fits = out.size();
    text.remove_prefix(length);
  }
  return out;
}

}  // namespace

std::string printable(std::string_view text, std::size_t max_bytes) {
  return shown(text, max_bytes, false);
}

std::string printable_lines(std::string_view text, std::size_t max_bytes) {
  return shown(text, max_bytes, true);
}

}  // namespace epifuse
