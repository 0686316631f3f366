// How a CTA starts: its warps share in setting up the barriers while the producer finds its first
// tile, so that it can ask for operands as soon as all have met.
#pragma once

#include "kernels/sm90/layout.cuh"
#include "kernels/sm90/tile_scheduler.cuh"

namespace epifuse::sm90 {

// All warps but the producer's, which has its first tile to find.
template <class Config>
constexpr int kPreparers = (1 + Config::Consumers::kCount) * kWarpsPerGroup - 1;

// What the i-th barrier in shared memory waits for. Without branches: they would part the inits.
template <class Layout>
__device__ __forceinline__ int arrivals(int i) {
  using Config = typename Layout::Config;
  constexpr int kPeers = Config::Producer::kClusterM + Config::Producer::kClusterN - 1;
  const int at = Layout::kFullAt + i * 8;
  int count = at < Layout::kLoadedAt ? kConsumersOfTile<Config> * kPeers : 1;
  count = at < Layout::kEmptyAt ? Layout::kFullArrivals : count;
  count = at >= Layout::kStagedBarriersAt && at < Layout::kSentAt ? kWarpsPerGroup : count;
  count = at >= Layout::kDrainedAt && at < Layout::kUnderwayAt ? kMovers : count;
  if constexpr (ScaleRing<Config>::kExists) {
    count = at >= Layout::kScalesThereAt && at < Layout::kScalesReadAt ? 32 : count;
    count = at >= Layout::kScalesReadAt && at < Layout::kBarriersEnd
                ? kConsumersOfTile<Config> * kWarpsPerGroup
                : count;
  }
  if constexpr (Config::Scheduler::kGrouped) {
    return at >= TileRing<Config>::kTakenAt ? Layout::kTakers : count;
  }
  return count;
}

// One after the other: the first takes some 100 clocks, those right behind it 20
// (docs/gotchas-hopper.md).
template <class Layout, int kCount>
__device__ __forceinline__ void init_barriers(int first) {
  int counts[kCount + 1];
#pragma unroll
  for (int i = 0; i < kCount; ++i) counts[i] = arrivals<Layout>(first + i);
#pragma unroll
  for (int i = 0; i < kCount; ++i) Layout::barrier(first + i).init(counts[i]);
}

// Sets up a warp's share of the barriers.
template <class Config, class Epilogue>
__device__ __forceinline__ void prepare(int warp) {
  using Layout = SharedLayout<Config, Epilogue>;
  constexpr int kEnd = Config::Scheduler::kGrouped ? TileRing<Config>::kTilesAt : Layout::kBytes;
  constexpr int kBarriers = (kEnd - Layout::kFullAt) / 8;
  constexpr int kEach = (kBarriers + kPreparers<Config> - 1) / kPreparers<Config>;
  const int first = (warp - 1) * kEach;
  if (warp > 0 && (threadIdx.x & 31) == 0) {
    if (first + kEach <= kBarriers) {
      init_barriers<Layout, kEach>(first);
    } else if (first < kBarriers) {
      init_barriers<Layout, kBarriers % kEach>(first);
    }
  }
  cutlass::arch::fence_barrier_init();
  if constexpr (kClusterSize < Config >> 1) {
    __syncwarp();
    cute::cluster_arrive_relaxed();  // the fence has released the barriers
  }
}

// After `prepare`. From here on barriers may be used, and what earlier kernels wrote may be read.
// The next kernel starts once all before this one have ended, and may rely on that until it waits.
template <class Config>
__device__ __forceinline__ void start(const abi::GemmParams& p) {
  if constexpr (kClusterSize < Config >> 1) {
    cute::cluster_wait();
  } else {
    __syncthreads();
  }
  await_previous_kernel();
  if (p.lets_next_start) allow_next_kernel();
}

}  // namespace epifuse::sm90
