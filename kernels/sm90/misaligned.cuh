// The Hopper GEMM where rows of A, of B or of both start off 16-byte boundaries, which TMA cannot
// address.
//
// Rows j, j + 8, j + 16, .. are a multiple of 16 bytes apart, and from the boundary before them on
// they can be addressed. So each class of rows has a map of its own; its boxes arrive in a staging
// area, and the producer's other warps move the rows to their place in the stage, misaligned (see
// kernels/common/row_classes.cuh), before they tell the consumers. What is aligned goes straight
// there.
#pragma once

#include "kernels/common/row_classes.cuh"
#include "kernels/sm90/dense.cuh"

namespace epifuse::sm90 {

constexpr int kRegistersToMove = 56;
constexpr int kRegistersBesideMovers = 224;

// Loads an operand's tile into its staging, class by class.
template <class Config, class Rows, bool kIsKMajor>
__device__ __forceinline__ void load_classes(const abi::MisalignedOperand& operand,
                                             FullBarrier& barrier, unsigned char* staged, int first,
                                             int k, Batch batch) {
#pragma unroll
  for (int j = 0; j < abi::kRowClasses; ++j) {
#pragma unroll
    for (int box = 0; box < Rows::kBoxes; ++box) {
      const int mn = first + box * 64;
      const int row = kIsKMajor ? mn : k, col = kIsKMajor ? k : mn;
      load_box<Config::Scheduler::kBatched>(
          operand.classes[j], barrier, staged + box * Rows::kBlockBytes + j * Rows::kClassBytes,
          row / abi::kRowClasses, col, batch);
    }
  }
}

// A warp, of which one thread does the work, as `produce` of kernels/sm90/producer.cuh.
template <class Config, class Epilogue>
class ClassProducer {
  using Producer = typename Config::Producer;
  using Layout = SharedLayout<Config, Epilogue>;
  static constexpr bool kMisalignedA = Producer::kMisalignedA,
                        kMisalignedB = Producer::kMisalignedB;

 public:
  explicit __device__ __forceinline__ ClassProducer(const abi::MisalignedGemmParams& p) : p_(p) {}

  __device__ __forceinline__ void run() {
    const int steps = steps_of<Config>(p_.gemm).count;
    int tile = tiles_.first();
    bool more = tiles_.go(p_.gemm, tile);
    start<Config>(p_.gemm);
    if (threadIdx.x != 0) return;
#pragma unroll 1
    for (; more; more = tiles_.go(p_.gemm, tile += tiles_.step())) {
      const Batch a_batch = batch_of(p_.gemm, 0, tiles_.batch);
      const Batch b_batch = batch_of(p_.gemm, 1, tiles_.batch);
#pragma unroll 1
      for (int i = 0; i < steps; ++i) {
        stage_misaligned(i * Config::kTileK, a_batch, b_batch);
        if constexpr (!kMisalignedA || !kMisalignedB) produce_aligned(i * Config::kTileK, a_batch);
      }
    }
  }

 private:
  __device__ __forceinline__ void stage_misaligned(int k, Batch a_batch, Batch b_batch) {
    Layout::drained(staging_.stage).wait(staging_.phase ^ 1);
    FullBarrier& landed = Layout::landed(staging_.stage);
    landed.arrive_and_expect_tx(Layout::kStagedBytes);
    if constexpr (kMisalignedA) {
      load_classes<Config, typename Layout::ARows, Producer::kAIsKMajor>(
          p_.a, landed, Layout::staged_a(staging_.stage), tiles_.m, k, a_batch);
    }
    if constexpr (kMisalignedB) {
      load_classes<Config, typename Layout::BRows, Producer::kBIsKMajor>(
          p_.b, landed, Layout::staged_b(staging_.stage), tiles_.n, k, b_batch);
    }
    staging_.next();
  }

  __device__ __forceinline__ void produce_aligned(int k, Batch a_batch) {
    Layout::empty(ring_.stage).wait(ring_.phase ^ 1);
    FullBarrier& full = Layout::full(ring_.stage);
    full.arrive_and_expect_tx(kMisalignedA ? Layout::kBBytes : p_.gemm.a_bytes);
    if constexpr (!kMisalignedA) {
      load_operand<Config, Producer::kAIsKMajor, Config::kTileM, 1>(
          p_.gemm.a, full, Layout::a(ring_.stage), tiles_.m, k, a_batch, 0, 0);
    }
    if constexpr (!kMisalignedB) {
      load_b<Config>(p_.gemm, full, Layout::b(ring_.stage), tiles_.n, k, tiles_.batch, 0, 0, false);
    }
    ring_.next();
  }

  const abi::MisalignedGemmParams& p_;
  TileScheduler<Config> tiles_;
  RingPosition<Config::kStages> ring_;
  RingPosition<abi::kStagings> staging_;
};

// Warps 1, 2 and 3 of the producer's warpgroup take a stage's rounds by turns, and go on with them
// in the next stage where this one ended. The last one copies block scales as well.
template <class Config, class Epilogue>
__device__ __forceinline__ void move_rows(const abi::MisalignedGemmParams& p) {
  using Producer = typename Config::Producer;
  using Layout = SharedLayout<Config, Epilogue>;
  using ARows = typename Layout::ARows;
  using BRows = typename Layout::BRows;
  constexpr int kARounds = Producer::kMisalignedA ? ARows::kBlocks * kRoundsOfBlock : 0;
  constexpr int kRounds = kARounds + (Producer::kMisalignedB ? BRows::kBlocks * kRoundsOfBlock : 0);
  const int lane = threadIdx.x & 31;
  const int steps = steps_of<Config>(p.gemm).count;
  int round = (threadIdx.x >> 5) - 1;
  TileScheduler<Config> tiles;
  RingPosition<Config::kStages> ring;
  RingPosition<abi::kStagings> staging;
  ScaleLoader<Config, Layout> scales(p.gemm);
  const bool has_scales = ScaleRing<Config>::kExists && round == kMovers - 1;
  start<Config>(p.gemm);
#pragma unroll 1
  for (int tile = tiles.first(); tiles.go(p.gemm, tile); tile += tiles.step()) {
    if (has_scales) scales.find(tiles);
#pragma unroll 1
    for (int i = 0; i < steps; ++i) {
      if (has_scales) scales.load(i);
      Layout::landed(staging.stage).wait(staging.phase);
      Layout::empty(ring.stage).wait(ring.phase ^ 1);
      if constexpr (Producer::kMisalignedA) {
#pragma unroll 1
        for (; round < kARounds; round += kMovers) {
          move_round<ARows>(Layout::staged_a(staging.stage), Layout::a(ring.stage), p.a.shifts,
                            round, lane);
        }
      }
      if constexpr (Producer::kMisalignedB) {
#pragma unroll 1
        for (; round < kRounds; round += kMovers) {
          move_round<BRows>(Layout::staged_b(staging.stage), Layout::b(ring.stage), p.b.shifts,
                            round - kARounds, lane);
        }
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
__device__ __forceinline__ void dense_misaligned(const abi::MisalignedGemmParams& p) {
  using Producer = typename Config::Producer;
  static_assert(kClusterSize<Config> == 1 && !Config::Scheduler::kTwoWidths);
  static_assert(Config::kGates == Gates::none || !Producer::kMisalignedB);
  const int warp = __shfl_sync(0xffffffffu, threadIdx.x >> 5, 0);
  prepare<Config, Epilogue>(warp);
  if (warp < kWarpsPerGroup) {
    cutlass::arch::warpgroup_reg_dealloc<kRegistersToMove>();
    if (threadIdx.x < abi::kRowClasses) {
      if constexpr (Producer::kMisalignedA) prefetch(p.a.classes[threadIdx.x]);
      if constexpr (Producer::kMisalignedB) prefetch(p.b.classes[threadIdx.x]);
    }
    if (warp == 0) {
      if (!Producer::kMisalignedA && threadIdx.x == 0) prefetch(p.gemm.a);
      if (!Producer::kMisalignedB && threadIdx.x == 0) prefetch(p.gemm.b);
      ClassProducer<Config, Epilogue>(p).run();
    } else {
      move_rows<Config, Epilogue>(p);
    }
  } else {
    cutlass::arch::warpgroup_reg_alloc<kRegistersBesideMovers>();
    Consumer<Config, Epilogue>(p.gemm, warp / kWarpsPerGroup - 1).run();
  }
}

}  // namespace epifuse::sm90
