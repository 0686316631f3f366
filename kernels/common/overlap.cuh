// Programmatic dependent launch: how a kernel overlaps those before and after it.
#pragma once

namespace epifuse {

// The kernel before this one has ended, and its writes are seen.
__device__ __forceinline__ void await_previous_kernel() {
  asm volatile("griddepcontrol.wait;" ::: "memory");
}

// The kernel after this one may set itself up.
__device__ __forceinline__ void allow_next_kernel() {
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
}

}  // namespace epifuse
