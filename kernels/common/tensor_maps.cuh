// Tensor maps that the device makes of others: in shared memory, then copied to where they are
// used.
#pragma once

#include "kernels/abi.h"

namespace epifuse {

__device__ __forceinline__ unsigned shared_address(const abi::TensorMap& map) {
  unsigned address;
  asm("{ .reg .u64 a; cvta.to.shared.u64 a, %1; cvt.u32.u64 %0, a; }" : "=r"(address) : "l"(&map));
  return address;
}

__device__ __forceinline__ void replace_address(abi::TensorMap& shared, const void* data) {
  asm volatile("tensormap.replace.tile.global_address.shared::cta.b1024.b64 [%0], %1;"
               :
               : "r"(shared_address(shared)), "l"(data)
               : "memory");
}

// Of a matrix: the sizes, and the bytes from one row to the next.
__device__ __forceinline__ void replace_sizes(abi::TensorMap& shared, unsigned rows, unsigned cols,
                                              long long row_bytes) {
  const unsigned address = shared_address(shared);
  asm volatile("tensormap.replace.tile.global_dim.shared::cta.b1024.b32 [%0], 0, %1;"
               :
               : "r"(address), "r"(cols)
               : "memory");
  asm volatile("tensormap.replace.tile.global_dim.shared::cta.b1024.b32 [%0], 1, %1;"
               :
               : "r"(address), "r"(rows)
               : "memory");
  asm volatile("tensormap.replace.tile.global_stride.shared::cta.b1024.b64 [%0], 0, %1;"
               :
               : "r"(address), "l"(row_bytes)
               : "memory");
}

// Maps that this thread wrote are seen by those that acquire them.
__device__ __forceinline__ void release_maps() {
  asm volatile("fence.proxy.tensormap::generic.release.gpu;" : : : "memory");
}

}  // namespace epifuse
