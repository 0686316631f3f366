// The kernel that copies matrices of 8-bit elements with rows and columns exchanged
// (kernels/common/transpose.cuh).
#pragma once

#include "codegen/bound.h"
#include "codegen/launch.h"
#include "targets/targets.h"

namespace epifuse::codegen {

KernelSource transpose_source(const targets::TargetInfo& target);

// Both have one shape. The last two dims are a matrix: `from` is contiguous along one of them, and
// `to` along the other, in rows at multiples of 16 bytes. Where `to` repeats along a dim, so does
// `from`.
Launch transpose_launch(const BoundTensor& from, const BoundTensor& to);

}  // namespace epifuse::codegen
