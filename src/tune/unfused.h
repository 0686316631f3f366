// What a fused step would take as the vendor's product and a tail kernel, by measurements.
#pragma once

#include <optional>

#include "codegen/gemm_sizes.h"
#include "plan/plan.h"
#include "targets/device_profile.h"

namespace epifuse::tune {

// All of this follows from what was measured on the device. Of a device without a row in
// targets/devices.def nothing is known: its steps are not split by the times of another one.

// Microseconds of the vendor's product, interpolated between the device's measurements. Empty where
// they say nothing: batches, other dtypes, sizes far from all of them.
std::optional<double> vendor_gemm_us(const plan::GemmDesc& gemm, const codegen::GemmSizes& sizes,
                                     const targets::DeviceProfile& device);

// Microseconds of the tail that does the step's epilogue: what it moves at the rate of memory, and
// a launch; 0 when the product is all there is to do.
double tail_us(const plan::FusedGemm& step, const codegen::GemmSizes& sizes,
               const targets::DeviceRates& rates);

// Whether all that a step does to its product is to add one row, which the vendor's product does
// too.
bool adds_one_row(const plan::FusedGemm& step, const codegen::GemmSizes& sizes);

// The row that a framework's product adds, whatever else is done behind it (PyTorch's addmm); null
// where there is none. The vendor may have another algorithm for such a product.
const plan::Load* row_of_product(const plan::FusedGemm& step);

// What a framework's product rounds its sums to.
DType framework_dtype(const plan::GemmDesc& gemm);

// What a framework's passes behind its own product take of such a tail's time: its product has
// framework_dtype, and to add a row to it is the library's work. Sums of columns of what it
// stores are a pass of their own (Inductor's).
double framework_part_of_tail(const plan::FusedGemm& step, const codegen::GemmSizes& sizes);
// What they take by their bytes; empty where the device's rate is not known.
std::optional<double> framework_tail_us(const plan::FusedGemm& step,
                                        const codegen::GemmSizes& sizes,
                                        const targets::DeviceProfile& device);

// Our time over the vendor's where nothing is fused into the product and operands are aligned,
// interpolated between measurements; empty where they say nothing.
std::optional<double> bare_ratio(const plan::GemmDesc& gemm, const codegen::GemmSizes& sizes,
                                 const targets::DeviceProfile& device);
// Whether such a ratio is so clearly below 1 that ours is worth being compiled for.
bool beats_vendor(std::optional<double> bare_ratio);

// Both together; the product takes `slowdown` times as long as on aligned operands.
std::optional<double> unfused_us(const plan::FusedGemm& step, const codegen::GemmSizes& sizes,
                                 const targets::DeviceProfile& device, double slowdown = 1);

// Whether rows of A that a grouped product looks up are better copied in order by a kernel before
// it: a large product takes longer by more than that where it copies them to its stages itself.
bool wants_rows_first(const plan::FusedGemm& step, const codegen::GemmSizes& sizes,
                      const targets::DeviceProfile& device);

// How much longer than on aligned operands products take that are not the usual family's.
struct Slowdown {
  double vendor;
  double another = 0;  // of another family's kernels, than the usual family's on aligned operands;
                       // 0 where they were not measured
};
// All rows start at multiples of `boundary_bytes`. Empty where nothing was measured.
std::optional<Slowdown> slowdown(targets::Rows a, targets::Rows b, int boundary_bytes,
                                 const targets::DeviceProfile& device);

// Whether a fused kernel is so clearly slower that the step is better split. Both are estimates, so
// a difference within their errors leaves the step fused.
bool is_clearly_slower(double fused_us, double unfused_us);

}  // namespace epifuse::tune
