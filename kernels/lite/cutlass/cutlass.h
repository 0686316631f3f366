// Stand-in for cutlass/cutlass.h: the one function that the register and log headers call.
#pragma once

#include <cuda/std/cstdint>
#include <cutlass/detail/helper_macros.hpp>

namespace cutlass {

// Number of this thread's warpgroup, known to the compiler to be the same in the whole warp.
__device__ __forceinline__ int canonical_warp_group_idx() {
  return __shfl_sync(0xffffffff, threadIdx.x / 128, 0);
}

}  // namespace cutlass
