// What the integers of a graph's inputs stand for.
#pragma once

#include <cstdint>
#include <random>
#include <vector>

#include "ir/graph.h"

namespace epifuse::ir {

// Of ends and counts `most` is the largest, of rows and places the number of rows there are.
struct IntegerUse {
  enum class Kind : std::uint8_t { none, ends, counts, rows, places };
  Kind kind = Kind::none;
  Dim most;
  bool operator==(const IntegerUse&) const = default;
};

// By the first node that goes by `input` or by a view of it; places, which are distinct rows,
// before rows.
IntegerUse use_of_integers(const Graph& graph, ValueId input);

// Integers that such a node may be given: uneven groups, some empty, that most often end with the
// last row; any rows; distinct places. Throws ArgumentError when there are fewer places than rows.
std::vector<std::int64_t> sample_integers(const IntegerUse& use, std::int64_t count,
                                          const Sizes& sizes, std::mt19937_64& random);

}  // namespace epifuse::ir
