// How a CTA starts: its warps share in setting up the barriers while the producer finds its first
// tile, so that it can ask for operands as soon as all have met.
#pragma once

#include "kernels/sm90_layout.cuh"
#include "kernels/sm90_walk.cuh"

namespace epifuse::sm90 {

// All warps but the producer's, which has its first tile to find.
constexpr int kPreparers = (1 + kConsumers) * kWarpsPerGroup - 1;

// What the i-th barrier in shared memory waits for.
template <class Layout>
__device__ __forceinline__ int arrivals(int i) {
  using Config = typename Layout::Config;
  constexpr int kReaders = Config::kCooperative ? kConsumers : 1;
  constexpr int kPeers = Config::kClusterM + Config::kClusterN - 1;
  const int at = Layout::kFullAt + i * 8;
  if (at < Layout::kEmptyAt) return Layout::kFullArrivals;
  if (at < Layout::kLoadedAt) return kReaders * kPeers;
  if (at >= Layout::kStagedBarriersAt && at < Layout::kSentAt) return kWarpsPerGroup;
  if (at >= Layout::kDrainedAt && at < Layout::kHandedAt) return kMovers;
  if (at >= Layout::kHandedAt && at < Layout::kUnderwayAt) return kWarpsPerGroup * 32;
  return 1;
}

// Sets up a warp's share of the barriers: one takes some 200 clocks.
template <class Config, class Epilogue>
__device__ __forceinline__ void prepare(int warp) {
  using Layout = SharedLayout<Config, Epilogue>;
  constexpr int kBarriers = (Layout::kBytes - Layout::kFullAt) / 8;
#pragma unroll
  for (int first = 0; first < kBarriers; first += kPreparers) {
    const int i = first + warp - 1;
    if (warp > 0 && i < kBarriers && (threadIdx.x & 31) == 0) {
      Layout::barrier(i).init(arrivals<Layout>(i));
    }
  }
  cutlass::arch::fence_barrier_init();
  if constexpr (kClusterSize < Config >> 1) {
    __syncwarp();
    cute::cluster_arrive();
  }
}

// After `prepare`. From here on barriers may be used, and what earlier kernels wrote may be read.
template <class Config>
__device__ __forceinline__ void start(const abi::GemmParams& p) {
  if constexpr (kClusterSize < Config >> 1) {
    cute::cluster_wait();
  } else {
    __syncthreads();
  }
  if (p.lets_next_start) allow_next_kernel();
  await_previous_kernel();
}

}  // namespace epifuse::sm90
