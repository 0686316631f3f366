// Thin names for the instructions of the kernel for few rows.
#pragma once

#include "cuda/std/cstdint"
#include "kernels/common/element.cuh"

namespace epifuse::sm90 {

// The kernel's dynamic shared memory.
__device__ __forceinline__ float* shared_floats() {
  extern __shared__ __align__(16) float shared[];
  return shared;
}

// 16 bytes of a matrix that is read once, so that they need not stay in L1. Zeros unless
// `is_there`.
__device__ __forceinline__ uint4 load_once(const void* from, bool is_there) {
  uint4 x;
  asm volatile(
      "{\n\t.reg .pred p;\n\tsetp.ne.b32 p, %5, 0;\n\t"
      "mov.b32 %0, 0;\n\tmov.b32 %1, 0;\n\tmov.b32 %2, 0;\n\tmov.b32 %3, 0;\n\t"
      "@p ld.global.L1::no_allocate.L2::128B.v4.b32 {%0, %1, %2, %3}, [%4];\n\t}"
      : "=&r"(x.x), "=&r"(x.y), "=&r"(x.z), "=&r"(x.w)
      : "l"(from), "r"(static_cast<int>(is_there)));
  return x;
}
__device__ __forceinline__ uint2 load_8_bytes_once(const void* from, bool is_there) {
  uint2 x;
  asm volatile(
      "{\n\t.reg .pred p;\n\tsetp.ne.b32 p, %3, 0;\n\t"
      "mov.b32 %0, 0;\n\tmov.b32 %1, 0;\n\t"
      "@p ld.global.L1::no_allocate.L2::128B.v2.b32 {%0, %1}, [%2];\n\t}"
      : "=&r"(x.x), "=&r"(x.y)
      : "l"(from), "r"(static_cast<int>(is_there)));
  return x;
}

__device__ __forceinline__ uint4 load_once(const void* from) {
  uint4 x;
  asm volatile("ld.global.L1::no_allocate.L2::128B.v4.b32 {%0, %1, %2, %3}, [%4];"
               : "=r"(x.x), "=r"(x.y), "=r"(x.z), "=r"(x.w)
               : "l"(from));
  return x;
}

// Has L2 fetch what will be loaded, which it also does while others may still write there.
__device__ __forceinline__ void fetch_to_l2(const void* from) {
  asm volatile("prefetch.global.L2 [%0];" ::"l"(from));
}

// 16 bytes of a matrix that all CTAs read.
__device__ __forceinline__ uint4 load_16_bytes(const void* from) {
  uint4 x;
  asm volatile("ld.global.v4.b32 {%0, %1, %2, %3}, [%4];"
               : "=r"(x.x), "=r"(x.y), "=r"(x.z), "=r"(x.w)
               : "l"(from));
  return x;
}
__device__ __forceinline__ uint4 load_16_bytes(const void* from, bool is_there) {
  uint4 x;
  asm volatile(
      "{\n\t.reg .pred p;\n\tsetp.ne.b32 p, %5, 0;\n\t"
      "mov.b32 %0, 0;\n\tmov.b32 %1, 0;\n\tmov.b32 %2, 0;\n\tmov.b32 %3, 0;\n\t"
      "@p ld.global.v4.b32 {%0, %1, %2, %3}, [%4];\n\t}"
      : "=&r"(x.x), "=&r"(x.y), "=&r"(x.z), "=&r"(x.w)
      : "l"(from), "r"(static_cast<int>(is_there)));
  return x;
}
__device__ __forceinline__ uint2 load_8_bytes(const void* from, bool is_there) {
  uint2 x;
  asm volatile(
      "{\n\t.reg .pred p;\n\tsetp.ne.b32 p, %3, 0;\n\t"
      "mov.b32 %0, 0;\n\tmov.b32 %1, 0;\n\t@p ld.global.v2.b32 {%0, %1}, [%2];\n\t}"
      : "=&r"(x.x), "=&r"(x.y)
      : "l"(from), "r"(static_cast<int>(is_there)));
  return x;
}

__device__ __forceinline__ uint32_t load_4_bytes(const void* from, bool is_there) {
  uint32_t x;
  asm volatile(
      "{\n\t.reg .pred p;\n\tsetp.ne.b32 p, %2, 0;\n\t"
      "mov.b32 %0, 0;\n\t@p ld.global.b32 %0, [%1];\n\t}"
      : "=&r"(x)
      : "l"(from), "r"(static_cast<int>(is_there)));
  return x;
}
__device__ __forceinline__ unsigned short load_2_bytes(const void* from, bool is_there) {
  unsigned short x;
  asm volatile(
      "{\n\t.reg .pred p;\n\tsetp.ne.b32 p, %2, 0;\n\t"
      "mov.b16 %0, 0;\n\t@p ld.global.b16 %0, [%1];\n\t}"
      : "=&h"(x)
      : "l"(from), "r"(static_cast<int>(is_there)));
  return x;
}

// D[16, 8] += A[16, 16] * B[16, 8] of a warp.
template <class Element>
struct Mma;
template <>
struct Mma<Bf16> {
  static __device__ __forceinline__ void run(float (&d)[4], const uint32_t (&a)[4], uint32_t b0,
                                             uint32_t b1) {
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
        "{%8, %9}, {%0, %1, %2, %3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
  }
};
template <>
struct Mma<F16> {
  static __device__ __forceinline__ void run(float (&d)[4], const uint32_t (&a)[4], uint32_t b0,
                                             uint32_t b1) {
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
        "{%8, %9}, {%0, %1, %2, %3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
  }
};

// The number of this CTA in its cluster.
__device__ __forceinline__ int rank_in_cluster() {
  uint32_t rank;
  asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  return static_cast<int>(rank);
}

// All threads of the cluster are here, and see what each wrote to shared memory.
__device__ __forceinline__ void sync_cluster() {
  asm volatile("barrier.cluster.arrive.release.aligned;\n\tbarrier.cluster.wait.acquire.aligned;" ::
                   : "memory");
}

// A float of the shared memory of another CTA of the cluster, at the place of `local` in ours.
__device__ __forceinline__ float load_float_of_cta(const float* local, int cta) {
  auto address = static_cast<uint32_t>(__cvta_generic_to_shared(local));
  float x;
  asm volatile("mapa.shared::cluster.u32 %0, %0, %1;" : "+r"(address) : "r"(cta));
  asm volatile("ld.shared::cluster.f32 %0, [%1];" : "=f"(x) : "r"(address) : "memory");
  return x;
}

}  // namespace epifuse::sm90
