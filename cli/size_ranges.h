// Sizes of many calls, as `epifuse tune` takes them: M=1..8192, M=1,8,64.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace epifuse::cli {

struct SizeRange {
  std::string symbol;
  std::vector<std::int64_t> sizes;  // ascending: the ends of the range, or all of the list
  bool is_range = false;
};

// Throws ArgumentError: what is expected, what came.
SizeRange parse_size_range(const std::string& word);

}  // namespace epifuse::cli
