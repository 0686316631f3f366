// SHA-256, for names of cached files.
#pragma once

#include <string>
#include <string_view>

namespace epifuse {
std::string sha256_hex(std::string_view bytes);
}  // namespace epifuse
