// What a fused step would take as the vendor's product and a tail kernel, by measurements.
#pragma once

#include <optional>

#include "codegen/kernel.h"

namespace epifuse::tune {

// Microseconds of the vendor's product, interpolated between the rows of vendor_gemm.def. Empty
// where they say nothing: batches, other dtypes, sizes far from all of them.
std::optional<double> vendor_gemm_us(const plan::GemmDesc& gemm, const codegen::GemmSizes& sizes);

// Microseconds of the tail that does the step's epilogue: what it moves at the rate of memory, and
// a launch; 0 when the product is all there is to do.
double tail_us(const plan::FusedGemm& step, const codegen::GemmSizes& sizes);

// Both together.
std::optional<double> unfused_us(const plan::FusedGemm& step, const codegen::GemmSizes& sizes);

// Whether a fused kernel is so clearly slower that the step is better split. Both are estimates, so
// a difference within their errors leaves the step fused.
bool is_clearly_slower(double fused_us, double unfused_us);

}  // namespace epifuse::tune
