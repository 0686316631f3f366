// Numbers as text, exactly.
#include "base/text.h"

#include <array>
#include <charconv>
#include <cmath>
#include <limits>
#include <system_error>

namespace epifuse {

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

}  // namespace epifuse
