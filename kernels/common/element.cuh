// Element types in memory: how each is read as, and rounded from, a float.
#pragma once

#include "cuda/std/cstdint"

namespace epifuse {

struct F32 {
  using Storage = float;
  static __device__ __forceinline__ float load(Storage x) { return x; }
  static __device__ __forceinline__ Storage store(float x) { return x; }
};

struct Bf16 {
  using Storage = uint16_t;
  static __device__ __forceinline__ float load(Storage x) {
    return __uint_as_float(static_cast<uint32_t>(x) << 16);
  }
  // As a pair whose other half is dropped: F2FP. One alone is F2F, of the special functions' unit.
  static __device__ __forceinline__ Storage store(float x) {
    uint32_t pair;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(0.0f), "f"(x));
    return static_cast<Storage>(pair & 0xffffu);
  }
};

struct F16 {
  using Storage = uint16_t;
  static __device__ __forceinline__ float load(Storage x) {
    float y;
    asm("cvt.f32.f16 %0, %1;" : "=f"(y) : "h"(x));
    return y;
  }
  // Likewise, as the conversion to e4m3.
  static __device__ __forceinline__ Storage store(float x) {
    uint32_t pair;
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(0.0f), "f"(x));
    return static_cast<Storage>(pair & 0xffffu);
  }
};

// The two 8-bit floats go through f16, which holds every value of both. Stores saturate for e4m3,
// which has no infinity; e5m2 keeps infinity as the reference does.
struct E4m3 {
  using Storage = uint8_t;
#if __CUDA_ARCH__ >= 890
  static __device__ __forceinline__ float load(Storage x) {
    uint32_t pair;
    asm("cvt.rn.f16x2.e4m3x2 %0, %1;" : "=r"(pair) : "h"(static_cast<uint16_t>(x)));
    return F16::load(static_cast<uint16_t>(pair & 0xffffu));
  }
  static __device__ __forceinline__ Storage store(float x) {
    uint16_t pair;
    asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;" : "=h"(pair) : "f"(0.0f), "f"(x));
    return static_cast<Storage>(pair & 0xffu);
  }
#else  // no instruction for it
  static __device__ __forceinline__ float load(Storage x) {
    const uint32_t sign = (x & 0x80u) << 24, magnitude = x & 0x7fu;
    if (magnitude == 0x7fu) return __uint_as_float(sign | 0x7fffffffu);
    const float value = __uint_as_float(magnitude << 20) * __uint_as_float(0x7b800000u);  // 2^120
    return __uint_as_float(__float_as_uint(value) | sign);
  }
  static __device__ __forceinline__ Storage store(float x) {
    const uint32_t bits = __float_as_uint(x), sign = (bits >> 24) & 0x80u;
    const uint32_t magnitude = bits & 0x7fffffffu;
    if (magnitude > 0x7f800000u) return static_cast<Storage>(sign | 0x7fu);   // NaN
    if (magnitude >= 0x43e00000u) return static_cast<Storage>(sign | 0x7eu);  // >= 448
    if (magnitude < 0x3c800000u) {  // below 2^-6: multiples of 2^-9
      const float steps = rintf(__uint_as_float(magnitude) * 512.0f);
      return static_cast<Storage>(sign | static_cast<uint32_t>(steps));
    }
    const uint32_t rounded = magnitude + 0x7ffffu + ((magnitude >> 20) & 1u);
    return static_cast<Storage>(sign | ((rounded - 0x3c000000u) >> 20));
  }
#endif
};

struct E5m2 {
  using Storage = uint8_t;
  static __device__ __forceinline__ float load(Storage x) {
    return F16::load(static_cast<uint16_t>(static_cast<uint16_t>(x) << 8));
  }
  // By hand: the hardware's conversion saturates. Rounds the low 8 bits of the f16 pattern's
  // source to nearest even directly from f32, so that there is one rounding.
  static __device__ __forceinline__ Storage store(float x) {
    const uint32_t bits = __float_as_uint(x), sign = (bits >> 24) & 0x80u;
    const uint32_t magnitude = bits & 0x7fffffffu;
    if (magnitude > 0x7f800000u) return static_cast<Storage>(sign | 0x7fu);   // NaN
    if (magnitude >= 0x47700000u) return static_cast<Storage>(sign | 0x7cu);  // >= 61440: infinity
    if (magnitude < 0x38800000u) {  // below 2^-14: multiples of 2^-16
      const float steps = rintf(__uint_as_float(magnitude) * 65536.0f);
      return static_cast<Storage>(sign | static_cast<uint32_t>(steps));
    }
    const uint32_t rounded = magnitude + 0xfffffu + ((magnitude >> 21) & 1u);
    return static_cast<Storage>(sign | ((rounded - 0x38000000u) >> 21));
  }
};

// Stores round to nearest even and saturate; NaN becomes 0.
struct I8 {
  using Storage = uint8_t;
  static __device__ __forceinline__ float load(Storage x) {
    // x + 128 as the last bits of a float from 2^23 on: conversions of integers are slow.
    return __uint_as_float(0x4b000000u | (x ^ 0x80u)) - 8388736.0f;
  }
  static __device__ __forceinline__ Storage store(float x) {
    int y;
    asm("cvt.rni.sat.s8.f32 %0, %1;" : "=r"(y) : "f"(x));
    return static_cast<Storage>(y & 0xff);
  }
};

struct Bool {
  using Storage = uint8_t;
  static __device__ __forceinline__ float load(Storage x) { return x != 0 ? 1.0f : 0.0f; }
  static __device__ __forceinline__ Storage store(float x) { return x != 0.0f ? 1 : 0; }
};

// `x` rounded to an element type, as a float: a cast of the graph.
template <class Element>
__device__ __forceinline__ float round_to(float x) {
  return Element::load(Element::store(x));
}
template <>
__device__ __forceinline__ float round_to<Bf16>(float x) {
  // In the high half of a pair it is the float's bits.
  uint32_t pair;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(x), "f"(0.0f));
  return __uint_as_float(pair);
}

// `x`, behind an addition of -0: ptxas runs one wgmma at a time (C7514, C7517) where a product's
// sums go straight into conversions to 16 or 8 bits other than bf16, or what was converted takes
// their place.
__device__ __forceinline__ float detached(float x) {
  float y;
  asm("add.rn.f32 %0, %1, 0f80000000;" : "=f"(y) : "f"(x));
  return y;
}

// Two values rounded to a 16-bit type, the first in the low half.
template <class Element>
__device__ __forceinline__ uint32_t pack(float low, float high) {
  return Element::store(low) | static_cast<uint32_t>(Element::store(high)) << 16;
}
template <>
__device__ __forceinline__ uint32_t pack<Bf16>(float low, float high) {
  uint32_t pair;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));
  return pair;
}
template <>
__device__ __forceinline__ uint32_t pack<F16>(float low, float high) {
  uint32_t pair;
  asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));
  return pair;
}

// Two values rounded to an 8-bit type, the first in the low byte.
template <class Element>
__device__ __forceinline__ uint32_t pack_bytes(float low, float high) {
  return Element::store(low) | static_cast<uint32_t>(Element::store(high)) << 8;
}
#if __CUDA_ARCH__ >= 890
template <>
__device__ __forceinline__ uint32_t pack_bytes<E4m3>(float low, float high) {
  uint16_t pair;
  asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;" : "=h"(pair) : "f"(high), "f"(low));
  return pair;
}
#endif

// Both halves of a pair of 16-bit elements as floats.
template <class Element>
__device__ __forceinline__ float2 unpack(uint32_t pair) {
  return make_float2(Element::load(static_cast<uint16_t>(pair & 0xffffu)),
                     Element::load(static_cast<uint16_t>(pair >> 16)));
}

}  // namespace epifuse
