// Arithmetic of pairs of 16 bits in a word, rounded once, by instructions.
#pragma once

#include "cuda/std/cstdint"

namespace epifuse {

// x + y of f16.
__device__ __forceinline__ uint32_t add_f16_pairs(uint32_t x, uint32_t y) {
  uint32_t sum;
  asm("add.f16x2 %0, %1, %2;" : "=r"(sum) : "r"(x), "r"(y));
  return sum;
}
// x * y of f16.
__device__ __forceinline__ uint32_t multiply_f16_pairs(uint32_t x, uint32_t y) {
  uint32_t product;
  asm("mul.f16x2 %0, %1, %2;" : "=r"(product) : "r"(x), "r"(y));
  return product;
}
// x * y + z of bf16.
__device__ __forceinline__ uint32_t multiply_add_bf16_pairs(uint32_t x, uint32_t y, uint32_t z) {
  uint32_t sum;
  asm("fma.rn.bf16x2 %0, %1, %2, %3;" : "=r"(sum) : "r"(x), "r"(y), "r"(z));
  return sum;
}

}  // namespace epifuse
