// Thin names for the sm_90a instructions that the GEMM templates use, over CuTe's PTX atoms.
#pragma once

#include <cutlass/arch/barrier.h>
#include <cutlass/arch/reg_reconfig.h>
#include <cute/arch/copy_sm90.hpp>
#include <cute/arch/copy_sm90_tma.hpp>
#include <cute/arch/mma_sm90_desc.hpp>
#include <cute/numeric/integer_sequence.hpp>
#include <epifuse/wgmma.hpp>

#include "kernels/abi.h"

namespace epifuse::sm90 {

using FullBarrier = cutlass::arch::ClusterTransactionBarrier;  // counts arrivals and TMA bytes
using EmptyBarrier = cutlass::arch::ClusterBarrier;
using cutlass::arch::NamedBarrier;

constexpr auto kCacheHint = static_cast<uint64_t>(cute::TMA::CacheHintSm90::EVICT_NORMAL);

// A box of a matrix into shared memory, its first element at (row, col); completes on `barrier`.
__device__ __forceinline__ void load_box(const abi::TensorMap& map, FullBarrier& barrier,
                                         void* shared, int row, int col) {
  cute::SM90_TMA_LOAD_2D::copy(&map, reinterpret_cast<uint64_t*>(&barrier), kCacheHint, shared, col,
                               row);
}

__device__ __forceinline__ void store_box(const abi::TensorMap& map, const void* shared, int row,
                                          int col) {
  cute::SM90_TMA_STORE_2D::copy(&map, shared, col, row);
}

__device__ __forceinline__ void prefetch(const abi::TensorMap& map) {
  cute::prefetch_tma_descriptor(reinterpret_cast<const cute::TmaDescriptor*>(&map));
}

// Descriptor of a K-major operand tile: rows of 128 bytes, 128-byte swizzle.
__device__ __forceinline__ uint64_t k_major_descriptor(const void* shared) {
  cute::GmmaDescriptor descriptor;
  descriptor.desc_ = 0;
  descriptor.bitfield.start_address_ = cute::cast_smem_ptr_to_uint(shared) >> 4;
  descriptor.bitfield.leading_byte_offset_ = 1;
  descriptor.bitfield.stride_byte_offset_ = 1024 >> 4;
  descriptor.bitfield.layout_type_ = static_cast<uint8_t>(cute::SM90::GMMA::LayoutType::B128);
  return descriptor;
}

// D += A * B for one 64 x N x 16 step; `accumulate` false starts from zero.
template <class Atom, int N, size_t... I>
__device__ __forceinline__ void multiply(uint64_t a, uint64_t b, float (&d)[N], bool accumulate,
                                         cute::index_sequence<I...>) {
  Atom::fma(a, b, d[I]...,
            accumulate ? cute::SM90::GMMA::ScaleOut::One : cute::SM90::GMMA::ScaleOut::Zero);
}
template <class Atom, int N>
__device__ __forceinline__ void multiply(uint64_t a, uint64_t b, float (&d)[N], bool accumulate) {
  multiply<Atom>(a, b, d, accumulate, cute::make_index_sequence<N>{});
}

// Four 8x8 matrices of 16-bit elements between registers and shared memory; every lane names a row.
__device__ __forceinline__ void load_matrices(const void* row, uint32_t* x) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(x[0]), "=r"(x[1]), "=r"(x[2]), "=r"(x[3])
               : "r"(cute::cast_smem_ptr_to_uint(row)));
}
__device__ __forceinline__ void store_matrices(void* row, const uint32_t* x) {
  cute::SM90_U32x4_STSM_N::copy(x[0], x[1], x[2], x[3], *static_cast<cute::uint128_t*>(row));
}

// x / y for 0 <= x < 2^21 by a float reciprocal: integer division costs about 100 clocks.
__device__ __forceinline__ int fast_divide(int x, float y) {
  return __float2int_rd(__fdividef(static_cast<float>(x) + 0.5f, y));
}

}  // namespace epifuse::sm90
