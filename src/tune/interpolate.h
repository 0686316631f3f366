// Between measured sizes of products.
#pragma once

#include <functional>
#include <optional>
#include <span>

#include "codegen/gemm_sizes.h"
#include "targets/device_profile.h"

namespace epifuse::tune {

// The geometric mean of what `of_row` gives, weighted by 1 / distance^4: a row's own sizes give its
// own value. Distances are powers of 2 over m, n and k together. Empty where no row is nearer than
// `farthest`.
std::optional<double> interpolate(
    std::span<const targets::MeasuredProduct> rows, const codegen::GemmSizes& sizes,
    double farthest, const std::function<double(const targets::MeasuredProduct&)>& of_row);

}  // namespace epifuse::tune
