// Functions that ops.def's `fast` and `approx` columns are written in.
#pragma once

namespace epifuse {

// 2^x, 2 ulp.
__device__ __forceinline__ float exp2_approx(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

// One instruction each, where a comparison and a choice would be three. NaN if either is NaN; of
// two zeros the smaller is -0.
__device__ __forceinline__ float minimum(float x, float y) {
  float z;
  asm("min.NaN.f32 %0, %1, %2;" : "=f"(z) : "f"(x), "f"(y));
  return z;
}
__device__ __forceinline__ float maximum(float x, float y) {
  float z;
  asm("max.NaN.f32 %0, %1, %2;" : "=f"(z) : "f"(x), "f"(y));
  return z;
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

// The polynomial of these coefficients, that of the highest power first.
template <class... Coefficients>
__device__ __forceinline__ float horner(float x, float highest, Coefficients... others) {
  float sum = highest;
  ((sum = fmaf(sum, x, others)), ...);
  return sum;
}

// 0.5 erfcx(x / sqrt 2) for x >= 0: the standard normal's tail over e^(-x^2/2), relative error
// 2^-20.
//
// A polynomial in t = 1 / (1 + 0.342 x), minimax of the error as a share of what ops.def grants
// gelu_erf, a twelfth for x < 14.4, where e^(-x^2/2) is 0.
__device__ __forceinline__ float scaled_tail(float x) {
  const float t = reciprocal(fmaf(0.342f, x, 1.0f));
  return horner(t, 0.04808865487575531f, -0.21167251467704773f, 0.27908167243003845f,
                -0.04730822890996933f, 0.16752763092517853f, 0.12683111429214478f,
                0.13750040531158447f, -4.867064126301557e-05f);
}

// The standard normal's distribution function, relative error 2^-20 (and that of e^(-x^2/2)).
__device__ __forceinline__ float normal_cdf(float x) {
  const float tail = scaled_tail(fabsf(x)) * exp2_approx(x * x * -0.7213475204444817f);
  return x >= 0.0f ? 1.0f - tail : tail;
}

// d/dx of x normal_cdf(x), cdf(x) + x pdf(x). That of -x and that of x add up to 1. Of e^(-x^2/2)
// the root is computed, which is 0 only where the product is.
__device__ __forceinline__ float gelu_slope(float x) {
  const float root = exp2_approx(x * x * -0.36067376022224085f);
  const float rest = fmaf(0.3989422804014327f, fabsf(x), -scaled_tail(fabsf(x))) * root * root;
  return x < 0.0f ? -rest : 1.0f + rest;
}

// d/dx of x s(x), with s(x) = 1 / (1 + e^(-u)) and u = 1.5957691216 x + 0.0713548163 x^3:
// s + x s (1 - s) u'. As above; from 40 on it is 1.
__device__ __forceinline__ float gelu_tanh_slope(float x) {
  const float a = minimum(fabsf(x), 40.0f), square = a * a;
  const float root = exp2_approx(a * fmaf(square, -0.05147162979001f, -1.1511040990721625f));
  const float s = reciprocal(fmaf(root, root, 1.0f));  // of a
  const float change = a * fmaf(square, 0.21406444881780075f, 1.5957691216057308f);
  const float rest = s * fmaf(-s, change, 1.0f) * root * root;
  return x < 0.0f ? rest : 1.0f - rest;
}

// log(1 + e^x) = max(x, 0) + log(1 + t) of t = e^-|x|, relative error 2^-21 (and that of t).
//
// log(1 + t) / t is a polynomial, minimax of the relative error for t from 0 to 1 (a least squares
// fit, weighted until it was).
__device__ __forceinline__ float softplus(float x) {
  const float t = exp2_approx(fabsf(x) * -1.4426950408889634f);
  const float p = horner(t, -0.008539209142327309f, 0.04408963769674301f, -0.10768172889947891f,
                         0.1774524301290512f, -0.2449546456336975f, 0.33275479078292847f,
                         -0.4999740421772003f, 0.9999998211860657f);
  return fmaf(t, p, maximum(x, 0.0f));
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

// The rest is for results of 8 significant bits: its error is 2^-11 of the result, and 2^-25 of x
// where the formula of ops.def cancels in float32. A warp's instruction of the special-function
// unit takes 8 clocks, another one 1 or 2: so each function has one of that unit at most. The
// coefficients are those whose error is the least share of what is allowed.

// x cdf(x) of the standard normal, of q = cdf(-|x|) = 2^p: the polynomial falls to -infinity.
__device__ __forceinline__ float narrow_gelu(float x) {
  const float a = fabsf(x);
  const float p = horner(a, -0.000352739094523713f, 0.006136653944849968f, -0.049260493367910385f,
                         -0.46276479959487915f, -1.1497913599014282f, -1.0000771284103394f);
  const float q = exp2_approx(p);
  return x * (x < 0.0f ? q : 1.0f - q);
}

// The slope of x cdf(x) at -|x| is q = (r - |x|) 2^p, where r is its root; as in gelu_slope.
__device__ __forceinline__ float narrow_gelu_slope(float x) {
  const float a = fabsf(x);
  const float p = horner(a, -0.00038583739660680294f, 0.005952874198555946f, -0.03888280317187309f,
                         -0.5744649171829224f, -0.3787105083465576f, -0.5886424779891968f);
  const float q = (0.7517915368080139f - a) * exp2_approx(p);
  return x < 0.0f ? q : 1.0f - q;
}

// The same of x s(x), with s as in gelu_tanh_slope, where 2^p is 0 from 10 on.
__device__ __forceinline__ float narrow_gelu_tanh_slope(float x) {
  const float a = minimum(fabsf(x), 10.0f);
  const float p = horner(a, -6.969847163418308e-05f, 0.0016793999820947647f, -0.0146391112357378f,
                         0.050661083310842514f, -0.09678942710161209f, -0.5383480191230774f,
                         -0.39012131094932556f, -0.5895094275474548f);
  const float q = (0.7524614334106445f - a) * exp2_approx(p);
  return x < 0.0f ? q : 1.0f - q;
}

// erf(x) = x p(x^2), which is 1 from 2.6 on.
__device__ __forceinline__ float narrow_erf(float x) {
  const float b = minimum(maximum(x, -2.6f), 2.6f), square = b * b;
  const float p = horner(square, 8.671478099131491e-06f, -0.00024947611382231116f,
                         0.00310901110060513f, -0.022524835541844368f, 0.10822879523038864f,
                         -0.374165803194046f, 1.1282317638397217f);
  return b * p;
}

}  // namespace epifuse
