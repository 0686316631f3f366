// SHA-256, for names of cached files, and a quick hash for tables in memory.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace epifuse {

std::string sha256_hex(std::string_view bytes);

// The hash of numbers with one more: `hash` is that of those before it, 0 for none.
inline std::uint64_t hash_next(std::uint64_t hash, std::uint64_t number) {
  constexpr std::uint64_t kOdd = 0x9e3779b97f4a7c15;  // 2^64 over the golden ratio
  hash = (hash ^ number) * kOdd;
  return hash ^ hash >> 32;
}

}  // namespace epifuse
