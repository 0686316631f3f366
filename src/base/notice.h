// What a user should know though it is no error.
#pragma once

#include <string>
#include <string_view>

namespace epifuse {

// Prints "epifuse: text" on stderr the first time in this process that `about` comes. Thread-safe.
void say_once(const std::string& about, std::string_view text);

}  // namespace epifuse
