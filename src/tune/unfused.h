// What a fused step would take as the vendor's product and a tail kernel, by measurements.
#pragma once

#include <optional>

#include "codegen/gemm_sizes.h"
#include "plan/plan.h"

namespace epifuse::tune {

// Microseconds of the vendor's product, interpolated between the rows of vendor_gemm.def. Empty
// where they say nothing: batches, other dtypes, sizes far from all of them.
std::optional<double> vendor_gemm_us(const plan::GemmDesc& gemm, const codegen::GemmSizes& sizes);

// Microseconds of the tail that does the step's epilogue: what it moves at the rate of memory, and
// a launch; 0 when the product is all there is to do.
double tail_us(const plan::FusedGemm& step, const codegen::GemmSizes& sizes);

// Our time over the vendor's where nothing is fused into the product and operands are aligned,
// interpolated between the rows of bare_gemm.def; empty where they say nothing.
std::optional<double> bare_ratio(const plan::GemmDesc& gemm, const codegen::GemmSizes& sizes);
// Whether such a ratio is so clearly below 1 that ours is worth being compiled for.
bool beats_vendor(std::optional<double> bare_ratio);

// Both together; the product takes `slowdown` times as long as on aligned operands.
std::optional<double> unfused_us(const plan::FusedGemm& step, const codegen::GemmSizes& sizes,
                                 double slowdown = 1);

// Whether rows of A that a grouped product looks up are better copied in order by a kernel before
// it: a large product takes longer by more than that where it copies them to its stages itself.
bool wants_rows_first(const plan::FusedGemm& step, const codegen::GemmSizes& sizes);

// How an operand of the kernel lies in memory: on 16-byte boundaries, or off them.
enum class Rows { aligned, k_major, mn_major };

// How much longer than on aligned operands products take, by rows of unaligned_gemm.def.
struct Slowdown {
  double fused, vendor;
};
// All rows start at multiples of `boundary_bytes`. Empty where nothing was measured.
std::optional<Slowdown> slowdown(Rows a, Rows b, int boundary_bytes);

// Microseconds of a product that takes `us` on aligned operands; its start takes no longer.
double slowed_down(double us, double slowdown);

// Whether a fused kernel is so clearly slower that the step is better split. Both are estimates, so
// a difference within their errors leaves the step fused.
bool is_clearly_slower(double fused_us, double unfused_us);

}  // namespace epifuse::tune
