// Which dims a reshape merges and splits.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "ir/graph.h"

namespace epifuse::ir {

// Neighbouring dims of the operand that hold the same elements as neighbouring dims of the result.
// Neither list is empty; dims of size 1 are in no group.
struct ReshapeGroup {
  std::vector<std::size_t> from, to;
};

// The finest groups that hold for all sizes, outermost first. No groups when a size is 0.
std::vector<ReshapeGroup> reshape_groups(const Shape& from, const Shape& to);

// Strides that show memory of one layout under another shape; empty when no strides can.
std::optional<std::vector<std::int64_t>> reshape_strides(const std::vector<std::int64_t>& from,
                                                         const std::vector<std::int64_t>& strides,
                                                         const std::vector<std::int64_t>& to);

}  // namespace epifuse::ir
