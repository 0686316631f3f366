// Accumulators on their way to other CTAs through the shared memory of the stages, four floats a
// thread side by side: partial sums between the CTAs of a cluster that split K.
#pragma once

#include "kernels/common/sums.cuh"
#include "kernels/sm90/tile_scheduler.cuh"

namespace epifuse::sm90 {

template <class Config>
class Exchange {
  static constexpr int kQuads = kChunkColumns / 8;  // of a product's chunk, a thread
  // Of a chunk's accumulators: those of each product side by side, or of both by turns.
  static constexpr bool kByTurns = Config::kGates == Gates::by_turns;
  static constexpr int kRuns = kByTurns ? 1 : kProducts<Config>;
  static constexpr int kRunQuads = kByTurns ? 2 * kQuads : kQuads;
  static constexpr int kAcross = kChunksAcross<Config>, kAll = kChunksOfConsumer<Config>;

 public:
  static constexpr int kAccumulators = Config::kTileN / 2;  // of a block of 64 rows, a thread
  using Sum = AccumulatorOf<Config::kAddsIntegers>;
  using Accumulators = Sum[kRowsOfConsumer<Config> / kBlockRows][kAccumulators];

  __device__ __forceinline__ explicit Exchange(int group)
      : group_(group), thread_(threadIdx.x & 127) {}

  // Where the accumulators of a tile's i-th chunk are in those of its block.
  static __device__ __forceinline__ constexpr int start(int i, int run) {
    return i % kAcross * kRunQuads * 4 + run * (kAccumulators / kProducts<Config>);
  }

  // Of the cluster's tile, whose i-th chunk is CTA i % kSplitK's to write: partial sums of the
  // other CTAs' chunks, where they find them.
  __device__ __forceinline__ void stash(const Accumulators& acc, int rank) const {
#pragma unroll
    for (int i = 0; i < kAll; ++i) {
      if (i % Config::Consumers::kSplitK != rank) put(acc, i, group_ * kAll + i);
    }
  }
  // The sums of this CTA's i-th chunk, of each product: its own, then those of the ranks after it.
  using Sums = Sum[kProducts<Config>][kChunkColumns / 2];
  __device__ __forceinline__ void add_up(const Accumulators& acc, int i, int rank,
                                         Sums& sums) const {
#pragma unroll
    for (int run = 0; run < kRuns; ++run) {
      const Sum* own = acc[i / kAcross] + start(i, run);
      Sum* sum = sums[run];
#pragma unroll
      for (int j = 0; j < kRunQuads * 4; ++j) sum[j] = j < quads(i) * 4 ? own[j] : 0;
#pragma unroll
      for (int quad = 0; quad < quads(i); ++quad, sum += 4) {
#pragma unroll
        for (int after = 1; after < Config::Consumers::kSplitK; ++after) {
          const int cta =
              rank + after -
              (rank + after >= Config::Consumers::kSplitK ? Config::Consumers::kSplitK : 0);
          const float4 x = load_from_cta(place(group_ * kAll + i, run, quad), cta);
          add_bits(sum[0], x.x);
          add_bits(sum[1], x.y);
          add_bits(sum[2], x.z);
          add_bits(sum[3], x.w);
        }
      }
    }
  }

 private:
  // Of a run of a tile's i-th chunk, whose columns may end before 64.
  static __device__ __forceinline__ constexpr int quads(int i) {
    return min(kAccumulators / kRuns - i % kAcross * kRunQuads * 4, kRunQuads * 4) / 4;
  }
  __device__ __forceinline__ float4* place(int chunk, int run, int quad) const {
    const int at = chunk * kProducts<Config> * kQuads + run * kQuads + quad;
    return reinterpret_cast<float4*>(shared_memory()) + at * 128 + thread_;
  }
  __device__ __forceinline__ void put(const Accumulators& acc, int i, int chunk) const {
#pragma unroll
    for (int run = 0; run < kRuns; ++run) {
      const Sum* x = acc[i / kAcross] + start(i, run);
#pragma unroll
      for (int quad = 0; quad < quads(i); ++quad, x += 4) {
        *place(chunk, run, quad) =
            make_float4(bits_of_sum(x[0]), bits_of_sum(x[1]), bits_of_sum(x[2]), bits_of_sum(x[3]));
      }
    }
  }

  int group_, thread_;
};

}  // namespace epifuse::sm90
