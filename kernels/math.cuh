// Functions that ops.def's `fast` and `approx` columns are written in.
#pragma once

namespace epifuse {

// 2^x, 2 ulp.
__device__ __forceinline__ float exp2_approx(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

// 1 / x, 1 ulp.
__device__ __forceinline__ float reciprocal(float x) {
  float y;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

// a / b, 2 ulp over the full range.
__device__ __forceinline__ float divide(float a, float b) {
  float y;
  asm("div.full.f32 %0, %1, %2;" : "=f"(y) : "f"(a), "f"(b));
  return y;
}

// sqrt(x), 1 ulp.
__device__ __forceinline__ float square_root(float x) {
  float y;
  asm("sqrt.approx.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

// 1 / sqrt(x), 2 ulp.
__device__ __forceinline__ float reciprocal_root(float x) {
  float y;
  asm("rsqrt.approx.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

// tanh(x) with a relative error of 2^-11.
__device__ __forceinline__ float tanh_approx(float x) {
  float y;
  asm("tanh.approx.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

// h + h * tanh(u): x * sigmoid(2u) for h = x / 2, in one special-function instruction.
__device__ __forceinline__ float half_plus_tanh_of(float h, float u) {
  return fmaf(h, tanh_approx(u), h);
}
__device__ __forceinline__ float half_plus_tanh(float h) { return half_plus_tanh_of(h, h); }

}  // namespace epifuse
