// The Hopper GEMM where B has elements of 8 bits and A of 16: B is widened on its way to a stage.
//
// Boxes of B arrive in a staging area, rows of a step one behind the other. The producer's other
// warps make elements of A's type of them, in their place in the stage, before they tell the
// consumers. What wgmma reads of B is as it would be of a copy in 16 bits.
#pragma once

#include "kernels/common/widen.cuh"
#include "kernels/sm90/dense.cuh"

namespace epifuse::sm90 {

constexpr int kRegistersToWiden = 56;
constexpr int kRegistersBesideWideners = 224;

// A warp, of which one thread does the work, as `produce` of kernels/sm90/producer.cuh.
template <class Config, class Epilogue>
class NarrowProducer {
  using Layout = SharedLayout<Config, Epilogue>;
  static constexpr bool kBatched = Config::Scheduler::kBatched;

 public:
  explicit __device__ __forceinline__ NarrowProducer(const abi::GemmParams& p) : all_(p) {}

  __device__ __forceinline__ void run() {
    const Steps steps = steps_of<Config>(all_);
    int tile = tiles_.first();
    bool more = tiles_.go(all_, tile);
    start<Config>(all_);
    if (threadIdx.x != 0) return;
#pragma unroll 1
    for (; more; more = tiles_.go(all_, tile += tiles_.step())) {
      const abi::GemmParams& p = params_of<Config>(all_, tiles_);
#pragma unroll 1
      for (int i = 0; i < steps.count; ++i) {
        const int k = p.first_k + (steps.first + i) * Config::kTileK;
        stage_b(p, k);
        produce_a(p, k);
      }
    }
  }

 private:
  // Of two products side by side one half each.
  __device__ __forceinline__ void stage_b(const abi::GemmParams& p, int k) {
    Layout::drained(staging_.stage).wait(staging_.phase ^ 1);
    FullBarrier& landed = Layout::landed(staging_.stage);
    unsigned char* staged = Layout::staged_b(staging_.stage);
    landed.arrive_and_expect_tx(Layout::kStagedBytes);
    const Keep keep = p.m <= Config::kTileM ? Keep::briefly : Keep::usual;
    const Batch batch = batch_of(p, 1, tiles_.batch);
    if constexpr (Config::kGates == Gates::halves) {
      const Batch second = batch_of(p, abi::kSecondB, tiles_.batch);
      load_box<kBatched>(p.b, landed, staged, tiles_.n, k, batch, keep);
      load_box<kBatched>(p.second_b, landed, staged + Layout::kStagedBytes / 2, tiles_.n, k, second,
                         keep);
    } else {
      load_box<kBatched>(p.b, landed, staged, tiles_.n * kProducts<Config>, k, batch, keep);
    }
    staging_.next();
  }

  __device__ __forceinline__ void produce_a(const abi::GemmParams& p, int k) {
    Layout::empty(ring_.stage).wait(ring_.phase ^ 1);
    FullBarrier& full = Layout::full(ring_.stage);
    full.arrive_and_expect_tx(p.a_bytes);
    load_operand<Config, true, Config::kTileM, 1>(p.a, full, Layout::a(ring_.stage), tiles_.m, k,
                                                  batch_of(p, 0, tiles_.batch), 0, 0);
    ring_.next();
  }

  const abi::GemmParams& all_;
  TileScheduler<Config> tiles_;
  RingPosition<Config::kStages> ring_;
  RingPosition<abi::kNarrowStagings> staging_;
};

// Warps 1, 2 and 3 of the producer's warpgroup take a step's rounds by turns, and go on with them
// in the next step where this one ended. In a round each lane widens two quarters of rows.
template <class Config, class Epilogue>
__device__ __forceinline__ void widen_rows(const abi::GemmParams& p) {
  using From = typename Config::Producer::From;
  using To = typename Config::Producer::To;
  using Layout = SharedLayout<Config, Epilogue>;
  constexpr int kRowsOfRound = 16, kRounds = Config::kTileN / kRowsOfRound;
  static_assert(kRounds * kRowsOfRound == Config::kTileN);
  const int lane = threadIdx.x & 31;
  const int steps = steps_of<Config>(p).count;
  int round = (threadIdx.x >> 5) - 1;
  TileScheduler<Config> tiles;
  RingPosition<Config::kStages> ring;
  RingPosition<abi::kNarrowStagings> staging;
  start<Config>(p);
#pragma unroll 1
  for (int tile = tiles.first(); tiles.go(p, tile); tile += tiles.step()) {
#pragma unroll 1
    for (int i = 0; i < steps; ++i) {
      Layout::landed(staging.stage).wait(staging.phase);
      Layout::empty(ring.stage).wait(ring.phase ^ 1);
#pragma unroll 1
      for (; round < kRounds; round += kMovers) {
        const auto* staged = reinterpret_cast<const uint4*>(Layout::staged_b(staging.stage));
        const int at = round * 64 + lane;
        const uint4 first = staged[at], second = staged[at + 32];
        widen_quarter<From, To>(first, Layout::b(ring.stage), at);
        widen_quarter<From, To>(second, Layout::b(ring.stage), at + 32);
      }
      round -= kRounds;
      cutlass::arch::fence_view_async_shared();  // wgmma reads what these threads wrote
      __syncwarp();
      if (lane == 0) {
        Layout::drained(staging.stage).arrive();
        Layout::full(ring.stage).arrive();
      }
      ring.next();
      staging.next();
    }
  }
}

template <class Config, class Epilogue>
__device__ __forceinline__ void dense_widened(const abi::GemmParams& p) {
  using Layout = SharedLayout<Config, Epilogue>;
  constexpr int kSplitK = Config::Consumers::kSplitK;
  static_assert(kClusterSize<Config> == kSplitK && !Config::Scheduler::kTwoWidths);
  const int warp = __shfl_sync(0xffffffffu, threadIdx.x >> 5, 0);
  prepare<Config, Epilogue>(warp);
  if (warp < kWarpsPerGroup) {
    cutlass::arch::warpgroup_reg_dealloc<kRegistersToWiden>();
    if (warp == 0) {
      if (threadIdx.x == 0 && !Config::Scheduler::kOwnParams) prefetch_operands<Config>(p);
      NarrowProducer<Config, Epilogue>(p).run();
    } else {
      widen_rows<Config, Epilogue>(p);
      // A consumer whose tiles are many transfers their chunks itself.
      if constexpr (kSplitK > 1 && Layout::kStagedDepth > 0) {
        if (warp <= Config::Consumers::kCount) {
          ChunkTransfers<Config, Epilogue>(p, warp - 1).run_started();
        }
      }
    }
  } else {
    cutlass::arch::warpgroup_reg_alloc<kRegistersBesideWideners>();
    Consumer<Config, Epilogue>(p, warp / kWarpsPerGroup - 1).run();
  }
}

}  // namespace epifuse::sm90
