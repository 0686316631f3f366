// Numbers as text, exactly, and bytes as UTF-8.
#include "base/text.h"

#include <fmt/core.h>

#include <array>
#include <charconv>
#include <cmath>
#include <limits>
#include <system_error>

namespace epifuse {
namespace {

// Bytes of the character that the text begins with; 0 where it begins with none (RFC 3629).
std::size_t character_bytes(std::string_view text) {
  const auto byte = [text](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char lead = byte(0);
  if (lead < 0x80) return 1;
  const std::size_t length = lead < 0xc2   ? 0
                             : lead < 0xe0 ? 2
                             : lead < 0xf0 ? 3
                             : lead < 0xf5 ? 4
                                           : 0;
  if (length == 0 || length > text.size()) return 0;
  for (std::size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xc0) != 0x80) return 0;
  }
  const unsigned char second = byte(1);
  const bool is_long = (lead == 0xe0 && second < 0xa0) || (lead == 0xf0 && second < 0x90);
  const bool is_none = (lead == 0xed && second > 0x9f) || (lead == 0xf4 && second > 0x8f);
  return is_long || is_none ? 0 : length;
}

}  // namespace

std::string number_text(double x) {
  if (std::isnan(x)) return "nan";
  std::array<char, 32> buffer;
  const auto [end, error] = std::to_chars(buffer.data(), buffer.data() + buffer.size(), x);
  return {buffer.data(), end};
}

std::optional<double> parse_number(std::string_view text) {
  double x = 0;
  const char* last = text.data() + text.size();
  const auto [end, error] = std::from_chars(text.data(), last, x);
  if (error != std::errc() || end != last) return std::nullopt;
  return x;
}

std::string utf8_text(std::string_view bytes, std::size_t max_bytes) {
  constexpr std::string_view kCut = "...";
  std::string text;
  std::size_t last_cut = 0;  // where "..." would still have room
  while (!bytes.empty()) {
    const std::size_t length = character_bytes(bytes);
    text += length == 0 ? fmt::format("\\x{:02x}", static_cast<unsigned char>(bytes[0]))
                        : std::string(bytes.substr(0, length));
    if (text.size() > max_bytes) return text.substr(0, last_cut).append(kCut);
    if (text.size() + kCut.size() <= max_bytes) last_cut = text.size();
    bytes.remove_prefix(length == 0 ? 1 : length);
  }
  return text;
}

}  // namespace epifuse
