// Programmatic dependent launch: how a kernel overlaps those before and after it. GPUs before
// Hopper have none, and run one kernel after another.
#pragma once

namespace epifuse {

// The kernel before this one has ended, and its writes are seen.
__device__ __forceinline__ void await_previous_kernel() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

// The kernel after this one may set itself up.
__device__ __forceinline__ void allow_next_kernel() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

}  // namespace epifuse
