// Thin names for the sm_90a instructions that the GEMM templates use, over CuTe's PTX atoms.
#pragma once

#include <cutlass/arch/barrier.h>
#include <cutlass/arch/reg_reconfig.h>
#include <cute/arch/cluster_sm90.hpp>
#include <cute/arch/copy_sm90.hpp>
#include <cute/arch/copy_sm90_tma.hpp>
#include <cute/arch/mma_sm90_desc.hpp>
#include <cute/numeric/integer_sequence.hpp>
#include <epifuse/wgmma.hpp>

#include "kernels/abi.h"
#include "kernels/common/overlap.cuh"
#include "kernels/sm90/chunk.cuh"

namespace epifuse::sm90 {

using FullBarrier = cutlass::arch::ClusterTransactionBarrier;  // counts arrivals and TMA bytes
using EmptyBarrier = cutlass::arch::ClusterBarrier;
using cutlass::arch::NamedBarrier;

// How long L2 keeps what TMA loads.
enum class Keep : uint64_t {
  usual = static_cast<uint64_t>(cute::TMA::CacheHintSm90::EVICT_NORMAL),
  briefly = static_cast<uint64_t>(cute::TMA::CacheHintSm90::EVICT_FIRST),  // it is read once
};

// The kernel's dynamic shared memory. Addresses are computed from it where they are used: kept in
// registers they would crowd out accumulators.
__device__ __forceinline__ unsigned char* shared_memory() {
  extern __shared__ __align__(1024) unsigned char shared[];
  return shared;
}

// x, of which the compiler does not know that it is. Addresses that depend on it are computed where
// they are used; kept in registers from tile to tile they would crowd out accumulators.
__device__ __forceinline__ int anew(int x) {
  int y;
  asm volatile("mov.b32 %0, %1;" : "=r"(y) : "r"(x));
  return y;
}

// The coordinates of map number `which` (see GemmParams::batched).
__device__ __forceinline__ Batch batch_of(const abi::GemmParams& p, int which, Batch batch) {
  return {p.batched >> (2 * which) & 1 ? batch.inner : 0,
          p.batched >> (2 * which + 1) & 1 ? batch.outer : 0};
}

// A box of a matrix into shared memory, its first element at (row, col); completes on `barrier`.
template <bool kBatched>
__device__ __forceinline__ void load_box(const abi::TensorMap& map, FullBarrier& barrier,
                                         void* shared, int row, int col, Batch batch,
                                         Keep keep = Keep::usual) {
  const auto hint = static_cast<uint64_t>(keep);
  auto* bits = reinterpret_cast<uint64_t*>(&barrier);
  if constexpr (kBatched) {
    cute::SM90_TMA_LOAD_4D::copy(&map, bits, hint, shared, col, row, batch.inner, batch.outer);
  } else {
    cute::SM90_TMA_LOAD_2D::copy(&map, bits, hint, shared, col, row);
  }
}

// The same into the CTAs of a cluster that `mask` names, at the same place and barrier of each.
template <bool kBatched>
__device__ __forceinline__ void load_box(const abi::TensorMap& map, FullBarrier& barrier,
                                         void* shared, int row, int col, Batch batch,
                                         uint16_t mask) {
  constexpr auto kHint = static_cast<uint64_t>(Keep::usual);
  auto* bits = reinterpret_cast<uint64_t*>(&barrier);
  if constexpr (kBatched) {
    cute::SM90_TMA_LOAD_MULTICAST_4D::copy(&map, bits, mask, kHint, shared, col, row, batch.inner,
                                           batch.outer);
  } else {
    cute::SM90_TMA_LOAD_MULTICAST_2D::copy(&map, bits, mask, kHint, shared, col, row);
  }
}

template <bool kBatched>
__device__ __forceinline__ void store_box(const abi::TensorMap& map, const void* shared, int row,
                                          int col, Batch batch) {
  if constexpr (kBatched) {
    cute::SM90_TMA_STORE_4D::copy(&map, shared, col, row, batch.inner, batch.outer);
  } else {
    cute::SM90_TMA_STORE_2D::copy(&map, shared, col, row);
  }
}

__device__ __forceinline__ void prefetch(const abi::TensorMap& map) {
  cute::prefetch_tma_descriptor(reinterpret_cast<const cute::TmaDescriptor*>(&map));
}

// What the device wrote into a tensor map is seen by the copies that this thread starts with it.
__device__ __forceinline__ void acquire(const abi::TensorMap& map) {
  asm volatile("fence.proxy.tensormap::generic.acquire.gpu [%0], 128;" : : "l"(&map) : "memory");
}

// A scale from global to shared memory, or zero where it does not exist.
__device__ __forceinline__ void copy_scale(float* shared, const float* global, bool exists) {
  asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;"
               :
               : "r"(cute::cast_smem_ptr_to_uint(shared)), "l"(global), "r"(exists ? 4 : 0)
               : "memory");
}

// Arrives on a barrier once all copies that this thread has started have landed.
__device__ __forceinline__ void arrive_after_copies(const FullBarrier& barrier) {
  asm volatile("cp.async.mbarrier.arrive.noinc.shared.b64 [%0];"
               :
               : "r"(cute::cast_smem_ptr_to_uint(&barrier))
               : "memory");
}

// An operand in shared memory, in rows of 128 bytes, 128-byte swizzle. K-major: a row of the tile
// is a row, 64 rows are a block. Else: blocks of 64 rows of K, each a row of 64 elements of M or N.
constexpr int kBlockBytes = 64 * 128;

template <bool kIsKMajor>
__device__ __forceinline__ uint64_t descriptor(const void* shared) {
  cute::GmmaDescriptor descriptor;
  descriptor.desc_ = 0;
  descriptor.bitfield.start_address_ = cute::cast_smem_ptr_to_uint(shared) >> 4;
  descriptor.bitfield.leading_byte_offset_ = kIsKMajor ? 1 : kBlockBytes >> 4;
  descriptor.bitfield.stride_byte_offset_ = 1024 >> 4;
  descriptor.bitfield.layout_type_ = static_cast<uint8_t>(cute::SM90::GMMA::LayoutType::B128);
  return descriptor;
}
// What one instruction's share of K (32 bytes of a K-major row) adds to a descriptor.
template <bool kIsKMajor>
constexpr int kDescriptorStep = (kIsKMajor ? 32 : 16 * 128) >> 4;

// D += A * B for one step; `accumulate` false starts from zero. Takes the first 2 x sizeof...(I)
// columns of a block of 64 rows.
template <class Atom, class Sum, size_t... I>
__device__ __forceinline__ void multiply(uint64_t a, uint64_t b, Sum* d, bool accumulate,
                                         cute::index_sequence<I...>) {
  Atom::fma(a, b, d[I]...,
            accumulate ? cute::SM90::GMMA::ScaleOut::One : cute::SM90::GMMA::ScaleOut::Zero);
}

// Four 8x8 matrices of 16-bit elements between registers and shared memory; every lane names a row
// there, which is a column of them in registers if transposed.
template <bool kTransposed>
__device__ __forceinline__ void load_matrices(uint32_t row, uint32_t* x) {
  if constexpr (kTransposed) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(x[0]), "=r"(x[1]), "=r"(x[2]), "=r"(x[3])
                 : "r"(row));
  } else {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(x[0]), "=r"(x[1]), "=r"(x[2]), "=r"(x[3])
                 : "r"(row));
  }
}
template <bool kTransposed>
__device__ __forceinline__ void store_matrices(uint32_t row, const uint32_t* x) {
  if constexpr (kTransposed) {
    asm volatile("stmatrix.sync.aligned.x4.trans.m8n8.shared.b16 [%0], {%1, %2, %3, %4};"
                 :
                 : "r"(row), "r"(x[0]), "r"(x[1]), "r"(x[2]), "r"(x[3])
                 : "memory");
  } else {
    asm volatile("stmatrix.sync.aligned.x4.m8n8.shared.b16 [%0], {%1, %2, %3, %4};"
                 :
                 : "r"(row), "r"(x[0]), "r"(x[1]), "r"(x[2]), "r"(x[3])
                 : "memory");
  }
}
// Two words of a lane.
__device__ __forceinline__ void load_pair(uint32_t at, uint32_t* x) {
  asm volatile("ld.shared.v2.b32 {%0, %1}, [%2];" : "=r"(x[0]), "=r"(x[1]) : "r"(at) : "memory");
}
// Four words of a lane.
__device__ __forceinline__ void load_four(uint32_t at, uint32_t* x) {
  asm volatile("ld.shared.v4.b32 {%0, %1, %2, %3}, [%4];"
               : "=r"(x[0]), "=r"(x[1]), "=r"(x[2]), "=r"(x[3])
               : "r"(at)
               : "memory");
}
__device__ __forceinline__ void store_four(uint32_t at, const uint32_t* x) {
  asm volatile("st.shared.v4.b32 [%0], {%1, %2, %3, %4};"
               :
               : "r"(at), "r"(x[0]), "r"(x[1]), "r"(x[2]), "r"(x[3])
               : "memory");
}
__device__ __forceinline__ void store_word(uint32_t at, uint32_t x) {
  asm volatile("st.shared.b32 [%0], %1;" : : "r"(at), "r"(x) : "memory");
}
__device__ __forceinline__ void store_pair(uint32_t at, const uint32_t* x) {
  asm volatile("st.shared.v2.b32 [%0], {%1, %2};" : : "r"(at), "r"(x[0]), "r"(x[1]) : "memory");
}

// A word of global memory, or half of one, or two side by side, if low < high; else zeros. Without
// a branch, as the compiler computes each address anew behind one.
__device__ __forceinline__ void load_if(const char* at, int low, int high, uint16_t& x) {
  asm volatile("{.reg .pred p; setp.lt.s32 p, %2, %3; mov.b16 %0, 0; @p ld.global.b16 %0, [%1];}"
               : "=h"(x)
               : "l"(at), "r"(low), "r"(high));
}
__device__ __forceinline__ void load_if(const char* at, int low, int high, uint32_t& x) {
  asm volatile("{.reg .pred p; setp.lt.s32 p, %2, %3; mov.b32 %0, 0; @p ld.global.b32 %0, [%1];}"
               : "=r"(x)
               : "l"(at), "r"(low), "r"(high));
}
__device__ __forceinline__ void load_if(const char* at, int low, int high, uint32_t& x,
                                        uint32_t& y) {
  asm volatile(
      "{.reg .pred p; setp.lt.s32 p, %3, %4; mov.b32 %0, 0; mov.b32 %1, 0; "
      "@p ld.global.v2.b32 {%0, %1}, [%2];}"
      : "=r"(x), "=r"(y)
      : "l"(at), "r"(low), "r"(high));
}

// Four words to global memory if low < high.
__device__ __forceinline__ void store_if(char* to, const uint32_t* x, int low, int high) {
  asm volatile("{.reg .pred p; setp.lt.s32 p, %5, %6; @p st.global.v4.u32 [%0], {%1, %2, %3, %4};}"
               :
               : "l"(to), "r"(x[0]), "r"(x[1]), "r"(x[2]), "r"(x[3]), "r"(low), "r"(high)
               : "memory");
}

// The lower word of both, the lower one first, after a shift to the right.
__device__ __forceinline__ uint32_t shift_right(uint32_t low, uint32_t high, int bits) {
  return __funnelshift_r(low, high, bits);
}

// 1, 2, 4 or 8 bytes from shared to global memory; `store` does so if low < high, without a branch.
template <int kBytes>
struct CopyUnit {
  static_assert(kBytes == 1 || kBytes == 2);
  uint16_t bits;
  __device__ __forceinline__ void load(uint32_t at) {
    if constexpr (kBytes == 1) {
      asm volatile("ld.shared.u8 %0, [%1];" : "=h"(bits) : "r"(at) : "memory");
    } else {
      asm volatile("ld.shared.u16 %0, [%1];" : "=h"(bits) : "r"(at) : "memory");
    }
  }
  __device__ __forceinline__ void store(char* to, int low, int high) const {
    if constexpr (kBytes == 1) {
      asm volatile("{.reg .pred p; setp.lt.s32 p, %2, %3; @p st.global.u8 [%0], %1;}"
                   :
                   : "l"(to), "h"(bits), "r"(low), "r"(high)
                   : "memory");
    } else {
      asm volatile("{.reg .pred p; setp.lt.s32 p, %2, %3; @p st.global.u16 [%0], %1;}"
                   :
                   : "l"(to), "h"(bits), "r"(low), "r"(high)
                   : "memory");
    }
  }
};
template <>
struct CopyUnit<4> {
  uint32_t bits;
  __device__ __forceinline__ void load(uint32_t at) {
    asm volatile("ld.shared.u32 %0, [%1];" : "=r"(bits) : "r"(at) : "memory");
  }
  __device__ __forceinline__ void store(char* to, int low, int high) const {
    asm volatile("{.reg .pred p; setp.lt.s32 p, %2, %3; @p st.global.u32 [%0], %1;}"
                 :
                 : "l"(to), "r"(bits), "r"(low), "r"(high)
                 : "memory");
  }
};
template <>
struct CopyUnit<8> {
  uint32_t bits[2];
  __device__ __forceinline__ void load(uint32_t at) { load_pair(at, bits); }
  __device__ __forceinline__ void store(char* to, int low, int high) const {
    asm volatile("{.reg .pred p; setp.lt.s32 p, %3, %4; @p st.global.v2.u32 [%0], {%1, %2};}"
                 :
                 : "l"(to), "r"(bits[0]), "r"(bits[1]), "r"(low), "r"(high)
                 : "memory");
  }
};

// Four floats of the shared memory of another CTA of the cluster, at the place of `local` in ours.
__device__ __forceinline__ float4 load_from_cta(const void* local, int cta) {
  float4 x;
  uint32_t address = cute::cast_smem_ptr_to_uint(local);
  asm volatile("mapa.shared::cluster.u32 %0, %0, %1;" : "+r"(address) : "r"(cta));
  asm volatile("ld.shared::cluster.v4.f32 {%0, %1, %2, %3}, [%4];"
               : "=f"(x.x), "=f"(x.y), "=f"(x.z), "=f"(x.w)
               : "r"(address));
  return x;
}

// x / y for 0 <= x < 2^21 by a float reciprocal: integer division costs about 100 clocks.
__device__ __forceinline__ int fast_divide(int x, float y) {
  return __float2int_rd(__fdividef(static_cast<float>(x) + 0.5f, y));
}

}  // namespace epifuse::sm90
