// Numbers as text, exactly: parse_number(number_text(x)) == x.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace epifuse {

// The shortest text that reads back as the same double: "0.1", "1e-05", "inf", "-inf", "nan".
std::string number_text(double x);
// The double nearest to all of `text`; empty when it is no number. Takes what number_text gives.
std::optional<double> parse_number(std::string_view text);

}  // namespace epifuse
