// The Hopper GEMM where rows of A, of B or of both start off 16-byte boundaries, which TMA cannot
// address.
//
// Rows j, j + 8, j + 16, .. can be addressed: they are a multiple of 16 bytes apart, and a box may
// start at any element of a row. So each class of rows has a map of its own, and a stage arrives
// class by class; the producer's other warps then put its rows in order where they are (see
// kernels/row_classes.cuh) before they tell the consumers. What is aligned goes straight to them.
#pragma once

#include "kernels/row_classes.cuh"
#include "kernels/sm90_dense.cuh"

namespace epifuse::sm90 {

constexpr int kRegistersToMove = 40;
constexpr int kRegistersBesideMovers = 232;

// Loads an operand's tile in blocks of 64 rows, each class by class.
template <class Config, bool kIsKMajor, int kTile>
__device__ __forceinline__ void load_classes(const abi::ShiftedOperand& operand,
                                             FullBarrier& barrier, unsigned char* stage, int first,
                                             int k, Batch batch) {
  static_assert(kClassBlockBytes == kBlockBytes && kTile % 64 == 0);
#pragma unroll
  for (int j = 0; j < abi::kRowClasses; ++j) {
    const int shift = operand.shifts[j];
#pragma unroll
    for (int block = 0; block < kTile / 64; ++block) {
      const int mn = first + block * 64;
      const int row = kIsKMajor ? mn : k, col = kIsKMajor ? k : mn;
      load_box<Config::kBatched>(operand.classes[j], barrier,
                                 stage + block * kBlockBytes + j * kClassBytes,
                                 row / abi::kRowClasses, col + shift, batch);
    }
  }
}

template <class Config, class Epilogue>
__device__ __forceinline__ void feed_classes(const abi::ShiftedGemmParams& p) {
  using Layout = SharedLayout<Config, Epilogue>;
  constexpr int kABytes = Layout::kABytes, kBBytes = Layout::kBBytes;
  const int steps = steps_of<Config>(p.gemm).count;
  TileWalk<Config> tiles;
  RingPosition<Config::kStages> ring;
#pragma unroll 1
  for (int tile = tiles.first(); tiles.go(p.gemm, tile); tile += tiles.step()) {
    const Batch a_batch = batch_of(p.gemm, 0, tiles.batch);
    const Batch b_batch = batch_of(p.gemm, 1, tiles.batch);
#pragma unroll 1
    for (int i = 0; i < steps; ++i) {
      const int k = i * Config::kTileK;
      Layout::empty(ring.stage).wait(ring.phase ^ 1);
      FullBarrier& landed = Layout::landed(ring.stage);
      landed.arrive_and_expect_tx((Config::kShiftedA ? kABytes : 0) +
                                  (Config::kShiftedB ? kBBytes : 0));
      if constexpr (Config::kShiftedA) {
        load_classes<Config, Config::kAIsKMajor, Config::kTileM>(p.a, landed, Layout::a(ring.stage),
                                                                 tiles.m, k, a_batch);
      } else {
        FullBarrier& full = Layout::full(ring.stage);
        full.arrive_and_expect_tx(kABytes);
        load_operand<Config, Config::kAIsKMajor, Config::kTileM, 1>(
            p.gemm.a, full, Layout::a(ring.stage), tiles.m, k, a_batch, 0, 0);
      }
      if constexpr (Config::kShiftedB) {
        load_classes<Config, Config::kBIsKMajor, Config::kTileN>(p.b, landed, Layout::b(ring.stage),
                                                                 tiles.n, k, b_batch);
      } else {
        FullBarrier& full = Layout::full(ring.stage);
        full.arrive_and_expect_tx(kBBytes);
        load_operand<Config, Config::kBIsKMajor, Config::kTileN, 1>(
            p.gemm.b, full, Layout::b(ring.stage), tiles.n, k, b_batch, 0, 0);
      }
      ring.next();
    }
  }
}

// Warps 1, 2 and 3 of the producer's warpgroup. They share a stage's rounds out anew at every
// stage, as there is one more than they could share equally.
template <class Config, class Epilogue>
__device__ __forceinline__ void move_rows(const abi::GemmParams& p) {
  using Layout = SharedLayout<Config, Epilogue>;
  const int lane = threadIdx.x & 31;
  const int steps = steps_of<Config>(p).count;
  int first_round = (threadIdx.x >> 5) - 1;
  TileWalk<Config> tiles;
  RingPosition<Config::kStages> ring;
#pragma unroll 1
  for (int tile = tiles.first(); tiles.go(p, tile); tile += tiles.step()) {
#pragma unroll 1
    for (int i = 0; i < steps; ++i) {
      Layout::landed(ring.stage).wait(ring.phase);
#pragma unroll 1
      for (int round = first_round; round < kRowRounds; round += kMovers) {
        const PiecePlaces places = piece_places(round, lane);
        if constexpr (Config::kShiftedA) {
          exchange<Config::kTileM / 64>(Layout::a(ring.stage), places);
        }
        if constexpr (Config::kShiftedB) {
          exchange<Config::kTileN / 64>(Layout::b(ring.stage), places);
        }
      }
      cutlass::arch::fence_view_async_shared();  // wgmma reads what these threads wrote
      __syncwarp();
      if (lane == 0) Layout::full(ring.stage).arrive();
      first_round = first_round == kMovers - 1 ? 0 : first_round + 1;
      ring.next();
    }
  }
}

template <class Config, class Epilogue>
__device__ __forceinline__ void dense_shifted(const abi::ShiftedGemmParams& p) {
  static_assert(kClusterSize<Config> == 1 && !Config::kTwoWidths);
  if (threadIdx.x >= 32 && threadIdx.x < 32 + abi::kRowClasses) {
    if constexpr (Config::kShiftedA) prefetch(p.a.classes[threadIdx.x - 32]);
    if constexpr (Config::kShiftedB) prefetch(p.b.classes[threadIdx.x - 32]);
  }
  const int group = start<Config, Epilogue>(p.gemm);
  if (group == 0) {
    cutlass::arch::warpgroup_reg_dealloc<kRegistersToMove>();
    if (threadIdx.x == 0) feed_classes<Config, Epilogue>(p);
    if (threadIdx.x >= 32) move_rows<Config, Epilogue>(p.gemm);
  } else {
    cutlass::arch::warpgroup_reg_alloc<kRegistersBesideMovers>();
    Consumer<Config, Epilogue>(p.gemm, group - 1).run();
  }
}

}  // namespace epifuse::sm90
