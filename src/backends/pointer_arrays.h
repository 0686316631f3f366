// Many problems of one plan: what the caller gave, checked, and each of them bound by itself.
#pragma once

#include <cstdint>

#include "backends/backend.h"
#include "codegen/pointer_arrays.h"
#include "epifuse/pointer_arrays.h"

namespace epifuse::backends {

// Matches names with the plan's inputs, scalars, outputs and symbols; reads no array. Throws
// ArgumentError: what the graph has, what came.
codegen::BoundPointerArrays match_pointer_arrays(const plan::Plan& plan,
                                                 const PointerArrays& problems);

// The i-th problem, of arrays that the host can read. Throws ArgumentError naming the problem.
codegen::Bound bind_problem(const plan::Plan& plan, const codegen::BoundPointerArrays& problems,
                            std::int64_t i, DeviceKind device);

// Dense, aligned tensors at no real address: symbols without a size are 4096, or the number of
// blocks that scales need. Throws ArgumentError
// where the sizes fit no tensors.
codegen::Bound bind_stand_ins(const plan::Plan& plan, Sizes sizes, DeviceKind device);

// All of them, one after another.
void run_one_by_one(const Executable& executable, const codegen::BoundPointerArrays& problems,
                    DeviceKind device, Stream stream);

}  // namespace epifuse::backends
