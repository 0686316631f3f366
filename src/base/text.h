// Text: numbers written exactly, parse_number(number_text(x)) == x; bytes as UTF-8.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace epifuse {

// The shortest text that reads back as the same double: "0.1", "1e-05", "inf", "-inf", "nan".
std::string number_text(double x);
// The double nearest to all of `text`; empty when it is no number. Takes what number_text gives.
std::optional<double> parse_number(std::string_view text);

// Text for readers that take UTF-8 alone: other bytes become \xNN. What is longer than `max_bytes`
// is cut between characters and ends with "...". `max_bytes` is at least 3.
std::string utf8_text(std::string_view bytes, std::size_t max_bytes);

}  // namespace epifuse
