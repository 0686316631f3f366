// Limits of the language: they bound the time and memory that any text can take (docs/epi.md).
#pragma once

#include <cstddef>

namespace epifuse::ir {

constexpr std::size_t kMaxTextBytes = std::size_t{16} << 20;
constexpr std::size_t kMaxNodes = 100'000;
constexpr std::size_t kMaxNameLength = 200;
constexpr std::size_t kMaxNumberLength = 100;
constexpr std::size_t kMaxRank = 6;
constexpr int kMaxDimDepth = 16;  // parentheses and signs within one size

}  // namespace epifuse::ir
