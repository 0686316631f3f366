// K of a tile split over several CTAs: each multiplies some steps of it and leaves its sums in
// memory; the one that comes last adds those of all, in the order of K whoever came when.
#pragma once

#include "kernels/sm80/primitives.cuh"
#include "kernels/sm80/tile.cuh"

namespace epifuse::sm80 {

// What a CTA does: its tile, and its part of the steps of K.
struct Share {
  int tile, part;
};
template <class Config>
__device__ __forceinline__ Share share_of_cta() {
  uint32_t i = blockIdx.x;
  if constexpr (Config::kSplitK > 1) keep(i);  // what follows from it is not worth a register
  return {static_cast<int>(i) / Config::kSplitK, static_cast<int>(i) % Config::kSplitK};
}
template <class Config>
__device__ __forceinline__ int first_step(int steps, int part) {
  return static_cast<int>(static_cast<long long>(steps) * part / Config::kSplitK);
}

// Of each thread the CTA's sums, four at a time. True for the last CTA of a tile, whose sums are
// those of all then.
template <class Config>
class SplitTile {
  using Sum = AccumulatorOf<Config::kAddsIntegers>;
  static constexpr int kSums = Config::kWarpM * Config::kWarpN / 32;  // of a thread
  static constexpr int kPart = kSums / 4 * kThreads<Config>;          // of a CTA, in fours

 public:
  template <class Sums>
  static __device__ __forceinline__ bool combine(const abi::SplitSums& split, Sums& sums,
                                                 int thread) {
    const Share share = share_of_cta<Config>();
    auto* const first = static_cast<float4*>(split.data) +
                        static_cast<long long>(share.tile) * Config::kSplitK * kPart + thread;
    for_each(sums, [&](Sum(&four)[4], int i) {
      first[share.part * kPart + i * kThreads<Config>] = {
          bits_of_sum(four[0]), bits_of_sum(four[1]), bits_of_sum(four[2]), bits_of_sum(four[3])};
    });
    __syncthreads();
    const int before = thread == 0 ? arrive(split.arrivals + share.tile) : 0;
    if (!__syncthreads_or(before == Config::kSplitK - 1)) return false;
    for_each(sums, [](Sum(&four)[4], int) { four[0] = four[1] = four[2] = four[3] = 0; });
#pragma unroll 1
    for (int part = 0; part < Config::kSplitK; ++part) {
      for_each(sums, [&](Sum(&four)[4], int i) {
        const float4 x = load_of_others(first + part * kPart + i * kThreads<Config>);
        add_bits(four[0], x.x);
        add_bits(four[1], x.y);
        add_bits(four[2], x.z);
        add_bits(four[3], x.w);
      });
    }
    return true;
  }

 private:
  template <int kRows, int kColumns, class F>
  static __device__ __forceinline__ void for_each(Sum (&sums)[kRows][kColumns][4], F&& f) {
    static_assert(kRows * kColumns * 4 == kSums);
#pragma unroll
    for (int i = 0; i < kRows; ++i) {
#pragma unroll
      for (int j = 0; j < kColumns; ++j) f(sums[i][j], i * kColumns + j);
    }
  }
};

}  // namespace epifuse::sm80
