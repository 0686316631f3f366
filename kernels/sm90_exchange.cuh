// Accumulators on their way to other warps through the shared memory of the stages, four floats a
// thread side by side: the second part of a CTA's last tile from one ping-pong consumer to the
// other, and partial sums between the CTAs of a cluster that split K.
#pragma once

#include "kernels/sm90_walk.cuh"

namespace epifuse::sm90 {

template <class Config>
class Exchange {
  static constexpr int kQuads = kChunkColumns / 8;  // of a chunk, a thread
  static constexpr int kAcross = kChunksAcross<Config>, kAll = kChunksOfConsumer<Config>;

 public:
  static constexpr int kAccumulators = Config::kTileN / 2;  // of a block of 64 rows, a thread
  using Accumulators = float[kRowsOfConsumer<Config> / kBlockRows][kAccumulators];

  __device__ __forceinline__ explicit Exchange(int group)
      : group_(group), thread_(threadIdx.x & 127) {}

  __device__ __forceinline__ void hand_over(const Accumulators& acc) const {
#pragma unroll
    for (int i = kChunksOfFirst<Config>; i < kAll; ++i) put(acc, i, i - kChunksOfFirst<Config>);
  }
  __device__ __forceinline__ void take_over(Accumulators& acc) const {
#pragma unroll
    for (int i = kChunksOfFirst<Config>; i < kAll; ++i) {
      float* x = acc[i / kAcross] + i % kAcross * (kChunkColumns / 2);
#pragma unroll
      for (int quad = 0; quad < quads(i); ++quad, x += 4) {
        const float4 y = *place(i - kChunksOfFirst<Config>, quad);
        x[0] = y.x;
        x[1] = y.y;
        x[2] = y.z;
        x[3] = y.w;
      }
    }
  }

  // Of the cluster's tile, whose i-th chunk is CTA i % kSplitK's to write: partial sums of the
  // other CTAs' chunks, where they find them.
  __device__ __forceinline__ void stash(const Accumulators& acc, int rank) const {
#pragma unroll
    for (int i = 0; i < kAll; ++i) {
      if (i % Config::kSplitK != rank) put(acc, i, group_ * kAll + i);
    }
  }
  // The sums of this CTA's i-th chunk: its own, then those of the ranks after it.
  __device__ __forceinline__ void add_up(const Accumulators& acc, int i, int rank,
                                         float (&sums)[kChunkColumns / 2]) const {
    const float* own = acc[i / kAcross] + i % kAcross * (kChunkColumns / 2);
#pragma unroll
    for (int j = 0; j < kChunkColumns / 2; ++j) sums[j] = j < quads(i) * 4 ? own[j] : 0;
#pragma unroll
    for (int quad = 0; quad < quads(i); ++quad) {
#pragma unroll
      for (int after = 1; after < Config::kSplitK; ++after) {
        const int cta = rank + after - (rank + after >= Config::kSplitK ? Config::kSplitK : 0);
        const float4 x = load_from_cta(place(group_ * kAll + i, quad), cta);
        sums[quad * 4] += x.x;
        sums[quad * 4 + 1] += x.y;
        sums[quad * 4 + 2] += x.z;
        sums[quad * 4 + 3] += x.w;
      }
    }
  }

 private:
  // Of a tile's i-th chunk, whose columns may end before 64.
  static __device__ __forceinline__ constexpr int quads(int i) {
    return min(kAccumulators - i % kAcross * (kChunkColumns / 2), kChunkColumns / 2) / 4;
  }
  __device__ __forceinline__ float4* place(int chunk, int quad) const {
    return reinterpret_cast<float4*>(shared_memory()) + (chunk * kQuads + quad) * 128 + thread_;
  }
  __device__ __forceinline__ void put(const Accumulators& acc, int i, int chunk) const {
    const float* x = acc[i / kAcross] + i % kAcross * (kChunkColumns / 2);
#pragma unroll
    for (int quad = 0; quad < quads(i); ++quad, x += 4) {
      *place(chunk, quad) = make_float4(x[0], x[1], x[2], x[3]);
    }
  }

  int group_, thread_;
};

}  // namespace epifuse::sm90
