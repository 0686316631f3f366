// The epilogue's full-size loads of a chunk of 64 x 64, by TMA.
//
// Ping-pong consumers have places of their own for them (kernels/sm90/transfer.cuh), since an
// epilogue takes about as long as the mainloop beside it. Cooperative ones get them through the
// ring of stages: some steps without products follow those of a tile's K, so that all its loads
// are under way before the epilogue begins, and no shared memory is set aside.
#pragma once

#include "kernels/sm90/layout.cuh"
#include "kernels/sm90/tile_scheduler.cuh"

namespace epifuse::sm90 {

// Into `slot` and those behind it; completes on `barrier`, which the caller has told the bytes.
template <class Config, class Epilogue>
__device__ __forceinline__ void load_chunk(const abi::GemmParams& p, FullBarrier& barrier,
                                           unsigned char* slot, const Chunk& chunk) {
  Epilogue::Tiles::for_each([&](auto type, int i) {
    if (Config::kNonTmaLoads >> i & 1) return;
    constexpr int kColumns = columns_of_slot(sizeof(typename decltype(type)::Storage));
    const Batch batch = batch_of(p, abi::kFirstTile + i, chunk.batch);
#pragma unroll
    for (int c = 0; c < kChunkColumns; c += kColumns, slot += kSlotBytes) {
      const Corner at = corner_of<Config>(chunk, c);
      load_box<Config::Scheduler::kBatched>(params_of<Config>(p, chunk).full[i].load, barrier, slot,
                                            at.row, at.col, batch, Keep::briefly);
    }
  });
}

// How a tile's chunks lie in stages: as many of each consumer in one as fit into the part for A
// and the part for B.
template <class Layout>
struct RingLoads {
  using Config = typename Layout::Config;
  static constexpr int kChunks = kChunksOfConsumer<Config>;
  static constexpr int kChunkBytes = Layout::kLoadSlots * kSlotBytes;
  static constexpr int kInA = Layout::kABytes / at_least_one(kChunkBytes);
  static constexpr int kInB = Layout::kBBytes / at_least_one(kChunkBytes);
  static constexpr int kOfEach = at_least_one((kInA + kInB) / Layout::kConsumers);  // in a stage
  static constexpr int kSteps = (kChunks + kOfEach - 1) / kOfEach;
  static_assert(!Config::Staging::kLoadsInRing || kInA + kInB >= Layout::kConsumers);

  // Of a consumer's i-th chunk of the tile, in the stage it comes in.
  static __device__ __forceinline__ unsigned char* place(int stage, int group, int i) {
    const int at = group * kOfEach + i % kOfEach;
    return at < kInA ? Layout::a(stage) + at * kChunkBytes
                     : Layout::b(stage) + (at - kInA) * kChunkBytes;
  }
  static __device__ __forceinline__ constexpr bool is_first(int i) { return i % kOfEach == 0; }
  static __device__ __forceinline__ constexpr bool is_last(int i) {
    return i == kChunks - 1 || i % kOfEach == kOfEach - 1;
  }

  // The producer's: the chunks of all consumers that come in the tile's s-th such step.
  template <class Epilogue>
  static __device__ __forceinline__ void load(const abi::GemmParams& p,
                                              const TileScheduler<Config>& tile, int stage, int s) {
    const int end = min((s + 1) * kOfEach, kChunks);
    FullBarrier& barrier = Layout::full(stage);
    barrier.arrive_and_expect_tx((end - s * kOfEach) * Layout::kConsumers * kChunkBytes);
#pragma unroll 1
    for (int group = 0; group < Layout::kConsumers; ++group) {
#pragma unroll 1
      for (int i = s * kOfEach; i < end; ++i) {
        load_chunk<Config, Epilogue>(p, barrier, place(stage, group, i),
                                     chunk_of<Config>(tile, group, i));
      }
    }
  }
};

}  // namespace epifuse::sm90
