// Instructions of the cp.async + mma.sync GEMM, and its shared memory.
#pragma once

#include "kernels/abi.h"
#include "kernels/common/element.cuh"
#include "kernels/common/widen.cuh"

namespace epifuse::sm80 {

// The first bytes of a parameter block, up to the last entry that a kernel uses.
template <int kBytes>
struct LeadingParams {
  alignas(abi::CopiedGemmParams) unsigned char bytes[kBytes];
  __device__ __forceinline__ const abi::CopiedGemmParams& params() const {
    return reinterpret_cast<const abi::CopiedGemmParams&>(*this);
  }
};

// The kernel's dynamic shared memory, and its address for the instructions below.
__device__ __forceinline__ unsigned char* shared_memory() {
  extern __shared__ __align__(1024) unsigned char shared[];
  return shared;
}
__device__ __forceinline__ uint32_t shared_address() {
  return static_cast<uint32_t>(__cvta_generic_to_shared(shared_memory()));
}

// A value that the compiler cannot see through: it stays in its register, where it would else be
// computed again in each step, and what follows from another such value is not taken for the same.
__device__ __forceinline__ void keep(uint32_t& x) { asm volatile("" : "+r"(x)); }

// kBytes from global to shared memory, or with 0 `bytes` as many zeros.
template <int kBytes>
__device__ __forceinline__ void copy_async(uint32_t shared, const unsigned char* global,
                                           int bytes) {
  if constexpr (kBytes == 16) {
    asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], 16, %2;"
                 :
                 : "r"(shared), "l"(global), "r"(bytes)
                 : "memory");
  } else {
    asm volatile("cp.async.ca.shared.global [%0], [%1], %2, %3;"
                 :
                 : "r"(shared), "l"(global), "n"(kBytes), "r"(bytes)
                 : "memory");
  }
}
// Ends a group of copies; waits until all groups but the last kPending have landed.
__device__ __forceinline__ void commit_copies() {
  asm volatile("cp.async.commit_group;" : : : "memory");
}
template <int kPending>
__device__ __forceinline__ void wait_for_copies() {
  asm volatile("cp.async.wait_group %0;" : : "n"(kPending) : "memory");
}

// 16 bytes by an ordinary store.
__device__ __forceinline__ void store_unit(uint32_t shared, const uint32_t (&words)[4]) {
  asm volatile("st.shared.v4.b32 [%0], {%1, %2, %3, %4};"
               :
               : "r"(shared), "r"(words[0]), "r"(words[1]), "r"(words[2]), "r"(words[3])
               : "memory");
}
__device__ __forceinline__ void load_two_words(uint32_t shared, uint32_t& first, uint32_t& second) {
  asm volatile("ld.shared.v2.b32 {%0, %1}, [%2];"
               : "=r"(first), "=r"(second)
               : "r"(shared)
               : "memory");
}
__device__ __forceinline__ uint32_t load_word(uint32_t shared) {
  uint32_t word;
  asm volatile("ld.shared.b32 %0, [%1];" : "=r"(word) : "r"(shared) : "memory");
  return word;
}

// Four matrices of 8 rows of 16 bytes; lanes 8 i .. 8 i + 7 have the addresses of the i-th.
__device__ __forceinline__ void load_matrices(uint32_t shared, uint32_t (&words)[4]) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(words[0]), "=r"(words[1]), "=r"(words[2]), "=r"(words[3])
               : "r"(shared)
               : "memory");
}
__device__ __forceinline__ void load_matrices_transposed(uint32_t shared, uint32_t (&words)[4]) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(words[0]), "=r"(words[1]), "=r"(words[2]), "=r"(words[3])
               : "r"(shared)
               : "memory");
}

// What the tensor cores are given of a word of operands: of f32 the nearest TF32 number.
template <class Element>
__device__ __forceinline__ uint32_t multiplied(uint32_t word) {
  if constexpr (sizeof(typename Element::Storage) == 4) {
    uint32_t rounded;
    asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(rounded) : "r"(word));
    return rounded;
  } else {
    return word;
  }
}

// Bytes 0 and 2 of two words, or bytes 1 and 3: where words hold pairs of two rows of an operand,
// those of one row.
__device__ __forceinline__ uint32_t even_bytes(uint32_t x, uint32_t y) {
  return __byte_perm(x, y, 0x6420);
}
__device__ __forceinline__ uint32_t odd_bytes(uint32_t x, uint32_t y) {
  return __byte_perm(x, y, 0x7531);
}

// sums[16, 8] += a[16, 32 bytes of K] * b[8, 32 bytes of K]^T, as fragments of a warp. Tensor cores
// may keep few bits of what they add up (docs/numerics.md).
template <class A, class B>
struct Multiply;
#define EPIFUSE_MULTIPLY(A, B, shape, types)                                             \
  template <>                                                                            \
  struct Multiply<A, B> {                                                                \
    static constexpr bool kKeepsFewBits = sizeof(typename A::Storage) == 1;              \
    static __device__ __forceinline__ void add(float (&sums)[4], const uint32_t (&a)[4], \
                                               const uint32_t* b) {                      \
      asm volatile("mma.sync.aligned." shape ".row.col.f32." types                       \
                   ".f32 "                                                               \
                   "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"     \
                   : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])          \
                   : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));  \
    }                                                                                    \
  };
EPIFUSE_MULTIPLY(Bf16, Bf16, "m16n8k16", "bf16.bf16")
EPIFUSE_MULTIPLY(F16, F16, "m16n8k16", "f16.f16")
EPIFUSE_MULTIPLY(F32, F32, "m16n8k8", "tf32.tf32")
// Exactly, as integers.
template <>
struct Multiply<I8, I8> {
  static constexpr bool kKeepsFewBits = false;
  static __device__ __forceinline__ void add(uint32_t (&sums)[4], const uint32_t (&a)[4],
                                             const uint32_t* b) {
    asm volatile(
        "mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 "
        "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
        : "+r"(sums[0]), "+r"(sums[1]), "+r"(sums[2]), "+r"(sums[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
  }
};
#if __CUDA_ARCH__ == 890 || __CUDA_ARCH__ >= 1200
EPIFUSE_MULTIPLY(E4m3, E4m3, "m16n8k32", "e4m3.e4m3")
EPIFUSE_MULTIPLY(E4m3, E5m2, "m16n8k32", "e4m3.e5m2")
EPIFUSE_MULTIPLY(E5m2, E4m3, "m16n8k32", "e5m2.e4m3")
EPIFUSE_MULTIPLY(E5m2, E5m2, "m16n8k32", "e5m2.e5m2")
#else  // no instruction for 8-bit floats, all of which f16 holds

// Of each 4 elements of K that a lane has, an instruction takes two for its first 8 and two for the
// others: A and B alike, so that the order does not matter.
template <class A, class B>
struct Multiply {
  static constexpr bool kKeepsFewBits = false;
  static __device__ __forceinline__ void add(float (&sums)[4], const uint32_t (&a)[4],
                                             const uint32_t* b) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const uint32_t upper = a[half * 2], lower = a[half * 2 + 1];
      const uint32_t of_a[4] = {PairOfF16<A, 0>::of(upper), PairOfF16<A, 0>::of(lower),
                                PairOfF16<A, 1>::of(upper), PairOfF16<A, 1>::of(lower)};
      const uint32_t of_b[2] = {PairOfF16<B, 0>::of(b[half]), PairOfF16<B, 1>::of(b[half])};
      Multiply<F16, F16>::add(sums, of_a, of_b);
    }
  }
};
#endif
#undef EPIFUSE_MULTIPLY

// One more has come: how many came before it. What they wrote is seen from then on.
__device__ __forceinline__ int arrive(int* arrivals) {
  int before;
  asm volatile("atom.add.acq_rel.gpu.global.s32 %0, [%1], 1;"
               : "=r"(before)
               : "l"(arrivals)
               : "memory");
  return before;
}
// What another CTA wrote: from L2, as L1 might still have what was there before.
__device__ __forceinline__ float4 load_of_others(const float4* from) {
  float4 x;
  asm volatile("ld.global.cg.v4.f32 {%0, %1, %2, %3}, [%4];"
               : "=f"(x.x), "=f"(x.y), "=f"(x.z), "=f"(x.w)
               : "l"(from)
               : "memory");
  return x;
}

// Brings the line of memory around an address to L2.
__device__ __forceinline__ void prefetch(const void* data) {
  asm volatile("prefetch.global.L2 [%0];" : : "l"(data));
}

}  // namespace epifuse::sm80
