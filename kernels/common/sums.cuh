// What products are added up as.
#pragma once

#include "cuda/std/cstdint"
#include "kernels/common/either.cuh"

namespace epifuse {

// Of integers an integer of 32 bits, which may be split into parts and stays exact.
template <bool kIsInteger>
using AccumulatorOf = typename Either<kIsInteger, uint32_t, float>::Type;

// An accumulator as a float, of which an integer takes the nearest.
__device__ __forceinline__ float sum_of(float x) { return x; }
__device__ __forceinline__ float sum_of(uint32_t x) {
  return static_cast<float>(static_cast<int>(x));
}
template <int kRows, int kColumns>
__device__ __forceinline__ void to_floats(const uint32_t (&integers)[kRows][kColumns],
                                          float (&sums)[kRows][kColumns]) {
#pragma unroll
  for (int i = 0; i < kRows; ++i) {
#pragma unroll
    for (int j = 0; j < kColumns; ++j) sums[i][j] = sum_of(integers[i][j]);
  }
}

// An accumulator's bits on their way through memory, and what arrives added to one.
__device__ __forceinline__ float bits_of_sum(float x) { return x; }
__device__ __forceinline__ float bits_of_sum(uint32_t x) { return __uint_as_float(x); }
__device__ __forceinline__ void add_bits(float& sum, float bits) { sum += bits; }
__device__ __forceinline__ void add_bits(uint32_t& sum, float bits) {
  sum += __float_as_uint(bits);
}

}  // namespace epifuse
