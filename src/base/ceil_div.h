// Counts in whole units.
#pragma once

#include <cstdint>

namespace epifuse {

// How many units hold `count`, the last of them maybe in part; `count` is not negative.
constexpr std::int64_t ceil_div(std::int64_t count, std::int64_t unit) {
  return (count + unit - 1) / unit;
}

// The least multiple of the unit that is no smaller.
constexpr std::int64_t round_up(std::int64_t count, std::int64_t unit) {
  return ceil_div(count, unit) * unit;
}

}  // namespace epifuse
