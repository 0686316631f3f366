// Elements of 8 bits as pairs of 16 bits, which hold every value of theirs.
#pragma once

#include "kernels/common/element.cuh"
#include "kernels/common/pair_math.cuh"

namespace epifuse {

// Bytes 2 kHalf and 2 kHalf + 1 of a word as the low bytes of a pair; the high ones are those of
// `high`.
template <int kHalf>
__device__ __forceinline__ uint32_t spread(uint32_t word, uint32_t high = 0) {
  return __byte_perm(word, high, kHalf == 0 ? 0x4140 : 0x4342);
}

// Those of a word, 8-bit floats, as a pair of f16.
template <class From, int kHalf>
struct PairOfF16;
template <int kHalf>
struct PairOfF16<E5m2, kHalf> {
  static __device__ __forceinline__ uint32_t of(uint32_t word) {
    return __byte_perm(word, 0, kHalf == 0 ? 0x1404 : 0x3424);
  }
};
template <int kHalf>
struct PairOfF16<E4m3, kHalf> {
#if __CUDA_ARCH__ >= 890
  static __device__ __forceinline__ uint32_t of(uint32_t word) {
    uint32_t pair;
    asm("cvt.rn.f16x2.e4m3x2 %0, %1;"
        : "=r"(pair)
        : "h"(static_cast<uint16_t>(word >> 16 * kHalf)));
    return pair;
  }
#else  // no instruction for it
  static __device__ __forceinline__ uint32_t of(uint32_t word) {
    const uint32_t bytes = spread<kHalf>(word), magnitude = bytes & 0x007f007fu;
    const uint32_t is_nan = (magnitude + 0x00010001u) & 0x00800080u;
    const uint32_t shifted = (bytes & 0x00800080u) << 8 | magnitude << 7;
    const uint32_t pair = multiply_f16_pairs(shifted, 0x5c005c00u);  // 2^8, of exponents' biases
    return pair | (is_nan << 3) * 31;                                // all bits of the exponent
  }
#endif
};

// Those of a word as a pair of To, Bf16 or F16.
template <class To, class From, int kHalf>
struct Widened;
template <class From, int kHalf>
struct Widened<F16, From, kHalf> : PairOfF16<From, kHalf> {};
template <class From, int kHalf>
struct Widened<Bf16, From, kHalf> {
  static __device__ __forceinline__ uint32_t of(uint32_t word) {
    const uint32_t pair = PairOfF16<From, kHalf>::of(word);
    return pack<Bf16>(F16::load(static_cast<uint16_t>(pair & 0xffffu)),
                      F16::load(static_cast<uint16_t>(pair >> 16)));
  }
};
// x + 128 as the last bits of a number from 1024 on.
template <int kHalf>
struct Widened<F16, I8, kHalf> {
  static __device__ __forceinline__ uint32_t of(uint32_t word) {
    return add_f16_pairs(spread<kHalf>(word ^ 0x80808080u, 0x64646464u), 0xe480e480u);  // -1152
  }
};
// The last 7 bits of x as those of a number from 128 on, less 128, or less 256 where x is negative.
template <int kHalf>
struct Widened<Bf16, I8, kHalf> {
  static __device__ __forceinline__ uint32_t of(uint32_t word) {
    const uint32_t bytes = spread<kHalf>(word);
    const uint32_t last = (bytes & 0x007f007fu) | 0x43004300u;
    const uint32_t first = (bytes & 0x00800080u) | 0xc300c300u;
    return multiply_add_bf16_pairs(last, 0x3f803f80u, first);
  }
};

// The i-th 16 elements of rows of 64, to their place in rows of 128 bytes with the 128-byte
// swizzle.
template <class From, class To>
__device__ __forceinline__ void widen_quarter(const uint4& x, unsigned char* rows, int i) {
  const int row = i >> 2, piece = (i & 3) * 2, swizzle = row & 7;
  auto* to = reinterpret_cast<uint4*>(rows + row * 128);
  to[piece ^ swizzle] = make_uint4(Widened<To, From, 0>::of(x.x), Widened<To, From, 1>::of(x.x),
                                   Widened<To, From, 0>::of(x.y), Widened<To, From, 1>::of(x.y));
  to[(piece + 1) ^ swizzle] =
      make_uint4(Widened<To, From, 0>::of(x.z), Widened<To, From, 1>::of(x.z),
                 Widened<To, From, 0>::of(x.w), Widened<To, From, 1>::of(x.w));
}

}  // namespace epifuse
