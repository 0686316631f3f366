// Text from outside (file names, messages that hold it) as a terminal may show it.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace epifuse {

constexpr std::size_t kMaxPrintedName = 300;      // bytes
constexpr std::size_t kMaxPrintedMessage = 8000;  // bytes; a compiler's log may be long

// `text` on one line: control characters, those that turn the direction of writing, and bytes that
// are no UTF-8 become \xNN, a byte each. What is longer than `max_bytes` is cut and ends in "...".
std::string printable(std::string_view text, std::size_t max_bytes = kMaxPrintedName);

// The same, but newlines stay.
std::string printable_lines(std::string_view text, std::size_t max_bytes = kMaxPrintedMessage);

}  // namespace epifuse
