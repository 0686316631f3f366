// Between measured sizes of products.
#pragma once

#include <optional>
#include <span>

#include "codegen/gemm_sizes.h"

namespace epifuse::tune {

struct Measured {
  codegen::GemmSizes sizes;
  double value;
};

// The geometric mean of what `of_row` gives, weighted by 1 / distance^4: a row's own sizes give its
// own value. Distances are powers of 2 over m, n and k together. Empty where no row is nearer than
// `farthest`.
std::optional<double> interpolate(std::span<const Measured> rows, const codegen::GemmSizes& sizes,
                                  double farthest, double (*of_row)(const Measured&));

}  // namespace epifuse::tune
