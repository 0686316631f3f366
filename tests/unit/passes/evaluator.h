// A small float64 interpreter of graphs, to compare graphs before and after a pass. It is written
// apart from the reference backend on purpose: a mistake shared by both would not show.
#pragma once

#include <cstdint>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "epifuse/dim.h"
#include "ir/graph.h"

namespace epifuse::testing {

struct Tensor {
  std::vector<std::int64_t> shape;
  std::vector<double> data;  // row-major
};
using Tensors = std::map<std::string, Tensor>;  // by name

enum class Rounding {
  every_value,  // as numerics `exact` demands
  casts_only,   // as `fast` allows
};

// The outputs, by name.
Tensors evaluate(const ir::Graph& graph, const Sizes& sizes, const Tensors& inputs,
                 Rounding rounding);

// Normal values for every input and scalar, rounded to their dtypes; with `special`, one in eight
// is a zero of either sign, an infinity or NaN.
Tensors random_inputs(const ir::Graph& graph, const Sizes& sizes, bool special,
                      std::mt19937_64& random);

// A small size for every symbol, no two alike.
Sizes small_sizes(const ir::Graph& graph);

}  // namespace epifuse::testing
