// How the epilogue's full-size operands come in and its results leave: TMA moves chunks of 64 x 64
// between memory and a consumer's staging, at the hands of one warp, which beside the producer has
// nothing else to do. Setting up a transfer and waiting for it cost a consumer's warps 400 clocks a
// chunk, a third of an epilogue (docs/gotchas-hopper.md).
#pragma once

#include "kernels/sm90/copy.cuh"
#include "kernels/sm90/loads.cuh"
#include "kernels/sm90/start.cuh"

namespace epifuse::sm90 {

// All members are for a whole warp, and take chunks in the order in which the consumer runs them.
template <class Config, class Epilogue>
class ChunkTransfers {
  using Layout = SharedLayout<Config, Epilogue>;
  using Consumers = typename Config::Consumers;
  using Scheduler = typename Config::Scheduler;
  using Staging = typename Config::Staging;
  static constexpr bool kInPlace = Staging::kInPlace;
  using Schedule = ConsumerScheduler<Config>;
  static constexpr int kChunks = kChunksOfConsumer<Config>;
  static constexpr int kStride = Consumers::kSplitK;                // CTAs take turns
  static constexpr int kLag = kInPlace && Staging::kLoadDepth > 1;  // stores not waited for

 public:
  __device__ __forceinline__ ChunkTransfers(const abi::GemmParams& p, int group)
      : p_(p), group_(group), lane_(threadIdx.x & 31) {}

  // All transfers of a consumer.
  __device__ __forceinline__ void run() {
    start<Config>(p_);
    run_started();
  }
  // The same, where the warp did other work first.
  __device__ __forceinline__ void run_started() {
    if (lane_ == 0 && !Scheduler::kOwnParams) prefetch_maps(p_);
    Schedule tiles;
    bool more = tiles.begin(p_, group_);
    if constexpr (Scheduler::kSideBySide) {
      if (lane_ == 0 && more) prefetch_maps(params_of<Config>(p_, tiles));
    }
    if (Layout::kLoadsWait && more) Layout::underway().wait(0);
    if (more) begin(tiles);
    if constexpr (Consumers::kSplitK > 1) cute::cluster_sync();  // with the consumers' two
#pragma unroll 1
    while (more) {
      const Schedule done = tiles;
      if constexpr (Layout::kLoadDepth > 0) more = tiles.next(p_);
#pragma unroll 1
      for (int i = first_chunk<Config>(); i < kChunks; i += kStride) pass_on(i, done, tiles, more);
      end_tile(done, tiles, more);
      if constexpr (Layout::kLoadDepth == 0) more = tiles.next(p_);  // fewer registers
    }
    finish();
    if constexpr (Consumers::kSplitK > 1) {
      cute::cluster_arrive_relaxed();
      cute::cluster_wait();
    }
  }

  // Before the first tile.
  __device__ __forceinline__ void begin(const Schedule& tiles) {
    acquire_maps(tiles);
#pragma unroll 1
    for (int i = 0; i < Staging::kLoadDepth; ++i) {
      request(first_chunk<Config>() + i * kStride, tiles, tiles, false);
    }
  }

  // Waits until the consumer is done with the i-th chunk of tile `done`; sends it, and asks for
  // those to come. `next` is the tile after it, if there are `more`.
  __device__ __forceinline__ void pass_on(int i, const Schedule& done, const Schedule& next,
                                          bool more) {
    Layout::staged(group_, ring_.stage).wait(ring_.phase);
    if (i == first_chunk<Config>() && more) acquire_maps(next);  // without loads the tile itself
    if constexpr (!kInPlace) request(i + Staging::kLoadDepth * kStride, done, next, more);
    if constexpr (Layout::kStoreSlots > 0) {
      send(ring_.stage, chunk(i, done));
      await_stores<kInPlace ? kLag : Staging::kStoreDepth - 1>();
      if constexpr (kInPlace) {
        if (i >= kLag) request(i + (Staging::kLoadDepth - kLag) * kStride, done, next, more);
      } else {
        release();
      }
    }
    ring_.next();
  }

  __device__ __forceinline__ void end_tile(const Schedule& done, const Schedule& next, bool more) {
    if constexpr (kLag > 0) {
      await_stores<0>();
      request(kChunks + Staging::kLoadDepth - 1, done, next, more);
    }
  }

  __device__ __forceinline__ void finish() { await_stores<0>(); }

 private:
  __device__ __forceinline__ void prefetch_maps(const abi::GemmParams& p) {
    Epilogue::Tiles::for_each([&](auto, int i) {
      if (!(Config::kNonTmaLoads >> i & 1)) prefetch(p.full[i].load);
    });
    Epilogue::Stores::for_each([&](auto, int i) {
      if (!(Config::kNonTmaStores >> i & 1)) prefetch(p.full[i].store);
    });
  }

  // Of many problems: before the first copies with the maps of a tile's.
  __device__ __forceinline__ void acquire_maps(const Schedule& tile) {
    if constexpr (Scheduler::kPointerArrays) {
      if (lane_ != 0 || acquired_ == tile.problem.params) return;
      acquired_ = tile.problem.params;
      Epilogue::Tiles::for_each([&](auto, int i) { acquire(acquired_->full[i].load); });
      Epilogue::Stores::for_each([&](auto, int i) {
        acquire(acquired_->full[i].store);
        if constexpr (kHasCuts<Config>) acquire(acquired_->full[i].cut_store);
      });
    }
  }

  // Starts the loads of the i-th chunk counted from tile `done` on.
  __device__ __forceinline__ void request(int i, const Schedule& done, const Schedule& next,
                                          bool more) {
    if constexpr (Layout::kLoadDepth > 0) {
      const bool is_next = i >= kChunks;
      if (is_next && !more) return;
      Schedule tile = done;
      if (is_next) {
        tile = next;
        i -= kChunks;
      }
      if (i >= kChunks || lane_ != 0) return;
      load(i % Staging::kLoadDepth, chunk(i, tile));
    }
  }

  // Of this consumer's part of a tile, the i-th.
  __device__ __forceinline__ Chunk chunk(int i, const Schedule& tile) const {
    return chunk_of<Config>(tile, group_, i);
  }

  __device__ __forceinline__ void load(int place, const Chunk& chunk) {
    FullBarrier& barrier = Layout::loaded(group_, place);
    barrier.arrive_and_expect_tx(Layout::kLoadSlots * kSlotBytes);
    load_chunk<Config, Epilogue>(p_, barrier, Layout::loads(group_, place), chunk);
  }

  __device__ __forceinline__ void send(int place, const Chunk& chunk) {
    const unsigned char* slot = Layout::stores(group_, place);
    cute::tma_store_fence();  // of what the consumer wrote
    const bool is_whole = !Scheduler::kGrouped || chunk.row + kBlockRows <= chunk.row_end;
    if constexpr (Scheduler::kGrouped || Config::kIndexedStores != 0) {
      copy_rows<Config, Epilogue>(p_, slot, chunk, is_whole ? Config::kIndexedStores : ~0u, lane_);
      __syncwarp();
    }
    if (lane_ == 0 && is_whole) {
      Epilogue::Stores::for_each([&](auto type, int i) {
        if (Config::kNonTmaStores >> i & 1) return;
        constexpr int kColumns = columns_of_slot(sizeof(typename decltype(type)::Storage));
        if (Config::kIndexedStores >> i & 1) {
          slot += kChunkColumns / kColumns * kSlotBytes;
          return;
        }
        const Batch batch = batch_of(p_, abi::kFirstStore + i, chunk.batch);
        const int columns = kHasCuts<Config> && chunk.is_cut ? kCutColumns<Config> : kChunkColumns;
#pragma unroll
        for (int c = 0; c < kChunkColumns; c += kColumns, slot += kSlotBytes) {
          if (c >= columns) continue;
          const abi::FullSizeMaps& full = params_of<Config>(p_, chunk).full[i];
          const auto& map = c + kColumns > columns ? full.cut_store : full.store;
          const Corner at = corner_of<Config>(chunk, c);
          store_box<Scheduler::kBatched>(map, slot, at.row, at.col, batch);
        }
      });
    }
    // Where nothing was queued this is an empty group: groups are counted.
    if (lane_ == 0) cute::tma_store_arrive();
  }

  // Until all but the last kLeft chunks' stores have read their staging.
  template <int kLeft>
  __device__ __forceinline__ void await_stores() {
    if (lane_ == 0) cute::tma_store_wait<kLeft>();
  }

  // Gives back the place of the oldest chunk that was sent: all but kStoreDepth - 1 have been read.
  __device__ __forceinline__ void release() {
    if (num_unread_ == Staging::kStoreDepth - 1) {
      if (lane_ == 0) Layout::sent(group_, (ring_.stage + 1) % Staging::kStoreDepth).arrive();
    } else {
      ++num_unread_;
    }
  }

  const abi::GemmParams& p_;
  int group_, lane_;
  RingPosition<Layout::kStagedDepth> ring_;
  int num_unread_ = 0;
  const abi::GemmParams* acquired_ = nullptr;  // the problem whose maps are
};

}  // namespace epifuse::sm90
