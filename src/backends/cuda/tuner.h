// Measures every way to run the fused steps of a plan on given tensors, and keeps the best.
#pragma once

#include <string>
#include <vector>

#include "backends/cuda/context.h"
#include "backends/cuda/late_kernels.h"
#include "backends/cuda/prepare.h"

namespace epifuse::cuda {

// The ways are all candidates of the step's family that compile well, and the vendor's product with
// a tail. Each is timed with its epilogue, launches interleaved and L2 flushed, and in sustained
// blocks; the one whose worse rank of the two is best becomes the choice of `context` and of its
// store. A line for each fused step says so. Outputs are overwritten. Throws ArgumentError when an
// output shares memory with an input, which would change while it is measured.
std::vector<std::string> tune(const Prepared& prepared, LateKernels& late, Context& context,
                              const codegen::Bound& bound);

}  // namespace epifuse::cuda
