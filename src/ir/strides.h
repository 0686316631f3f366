// Strides of inputs as programs depend on them: only whether one is 0 or 1.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "ir/graph.h"

namespace epifuse::ir {

enum class Stride : std::uint8_t { any, zero, one };

// What programs depend on of declared strides.
std::vector<Stride> strides_of(const Shape& declared);

// The graph with these strides of its inputs, in order; none are declared where a row is empty.
// Those that may be any number are symbols of their own. Equal layouts give the same text.
Graph with_strides(Graph graph, std::span<const std::vector<Stride>> inputs);

}  // namespace epifuse::ir
