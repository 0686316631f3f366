// Sums and maxima: where each starts, and how two of them become one.
#pragma once

namespace epifuse {

enum class Reduce { none, sum, max };

template <Reduce kReduce>
__device__ __forceinline__ float identity() {
  return kReduce == Reduce::max ? __int_as_float(0xff800000) : 0.0f;
}

// A NaN on either side wins the maximum.
template <Reduce kReduce>
__device__ __forceinline__ float combine(float a, float b) {
  if (kReduce == Reduce::max) return a > b || a != a ? a : b;
  return a + b;
}

// A list of reductions, e.g. those of an epilogue along rows.
template <Reduce... kReduces>
struct Reductions {
  static constexpr int kCount = sizeof...(kReduces);

  template <Reduce kReduce>
  struct Tag {
    static constexpr Reduce kValue = kReduce;
  };
  // Calls f(Tag<kReduce>{}, i) for each in order; unrolled, so that `i` indexes registers.
  template <class F>
  static __device__ __forceinline__ void for_each([[maybe_unused]] F f) {
    [[maybe_unused]] int i = 0;
    (f(Tag<kReduces>{}, i++), ...);
  }
};

}  // namespace epifuse
