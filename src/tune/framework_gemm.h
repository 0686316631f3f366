// What our CPU kernels take where a framework could run the product and the loops behind it itself.
#pragma once

#include <optional>

#include "codegen/gemm_sizes.h"
#include "plan/plan.h"

namespace epifuse::tune {

// Our time over PyTorch's: interpolated between the rows of framework_gemm.def, and what a call
// costs. Empty where they say nothing: batches, other dtypes, empty products.
std::optional<double> framework_ratio(const plan::FusedGemm& step, const codegen::GemmSizes& sizes);

// The largest ratio that is worth a kernel: measurements scatter by as much as it is below 1.
inline constexpr double kMostHostRatio = 0.9;

// Whether such a ratio leaves too little to gain.
bool is_framework_faster(double ratio);

}  // namespace epifuse::tune
