// Errors that point into a text: position, the line, a mark under the place.
#pragma once

#include <string>
#include <string_view>

namespace epifuse::ir {

// Throws ParseError for `where`, a part of `text` (empty at its end).
[[noreturn]] void fail_at(std::string_view text, std::string_view where,
                          const std::string& message);

// Printable ASCII as it is, every other byte as \xNN; cut after `max_length` bytes with "...".
std::string escape(std::string_view bytes, std::size_t max_length = 60);

}  // namespace epifuse::ir
