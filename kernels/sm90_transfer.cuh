// How the epilogue's full-size operands come in and its results leave: TMA moves chunks of 64 x 64
// between memory and a consumer's staging, at the hands of one warp, which beside the producer has
// nothing else to do. Setting up a transfer and waiting for it cost a consumer's warps 400 clocks a
// chunk, a third of an epilogue (docs/gotchas.md).
#pragma once

#include "kernels/sm90_layout.cuh"
#include "kernels/sm90_walk.cuh"

namespace epifuse::sm90 {

// All members are for a whole warp, and take chunks in the order in which the consumer runs them.
template <class Config, class Epilogue>
class ChunkTransfers {
  using Layout = SharedLayout<Config, Epilogue>;
  static constexpr bool kInPlace = Config::kInPlace;
  static constexpr int kChunks = kChunksOfConsumer<Config>;
  static constexpr int kStride = Config::kSplitK;                  // CTAs take turns
  static constexpr int kLag = kInPlace && Config::kLoadDepth > 1;  // stores not waited for

 public:
  __device__ __forceinline__ ChunkTransfers(const abi::GemmParams& p, int group)
      : p_(p), group_(group), lane_(threadIdx.x & 31) {}

  // All transfers of a consumer.
  __device__ __forceinline__ void run() {
    TileWalk<Config> tiles;
    int tile = first_tile<Config>(group_);
    bool more = tiles.go(p_, tile);
    if (more) begin(tiles);
    if constexpr (Config::kSplitK > 1) cute::cluster_sync();  // with the consumers' two
#pragma unroll 1
    while (more) {
      const TileWalk<Config> done = tiles;
      tile += kTileStep<Config> * tiles.step();
      if constexpr (Layout::kLoadSlots > 0) more = tiles.go(p_, tile);
#pragma unroll 1
      for (int i = first_chunk<Config>(); i < kChunks; i += kStride) pass_on(i, done, tiles, more);
      end_tile(done, tiles, more);
      if constexpr (Layout::kLoadSlots == 0) more = tiles.go(p_, tile);  // fewer registers
    }
    finish();
    if constexpr (Config::kSplitK > 1) cute::cluster_sync();
  }

  // Before the first tile.
  __device__ __forceinline__ void begin(const TileWalk<Config>& tiles) {
#pragma unroll 1
    for (int i = 0; i < Config::kLoadDepth; ++i) {
      request(first_chunk<Config>() + i * kStride, tiles, tiles, false);
    }
  }

  // Waits until the consumer is done with the i-th chunk of tile `done`; sends it, and asks for
  // those to come. `next` is the tile after it, if there are `more`.
  __device__ __forceinline__ void pass_on(int i, const TileWalk<Config>& done,
                                          const TileWalk<Config>& next, bool more) {
    Layout::staged(group_, ring_.stage).wait(ring_.phase);
    if constexpr (!kInPlace) request(i + Config::kLoadDepth * kStride, done, next, more);
    if constexpr (Layout::kStoreSlots > 0) {
      send(ring_.stage, chunk_of<Config>(done, group_, i));
      await_stores<kInPlace ? kLag : Config::kStoreDepth - 1>();
      if constexpr (kInPlace) {
        if (i >= kLag) request(i + (Config::kLoadDepth - kLag) * kStride, done, next, more);
      } else {
        release();
      }
    }
    ring_.next();
  }

  __device__ __forceinline__ void end_tile(const TileWalk<Config>& done,
                                           const TileWalk<Config>& next, bool more) {
    if constexpr (kLag > 0) {
      await_stores<0>();
      request(kChunks + Config::kLoadDepth - 1, done, next, more);
    }
  }

  __device__ __forceinline__ void finish() { await_stores<0>(); }

 private:
  // Starts the loads of the i-th chunk counted from tile `done` on.
  __device__ __forceinline__ void request(int i, const TileWalk<Config>& done,
                                          const TileWalk<Config>& next, bool more) {
    if constexpr (Layout::kLoadSlots > 0) {
      const bool is_next = Config::kSplitK == 1 && i >= kChunks;
      if ((i >= kChunks && !is_next) || (is_next && !more) || lane_ != 0) return;
      load(i % Config::kLoadDepth, is_next ? chunk_of<Config>(next, group_, i - kChunks)
                                           : chunk_of<Config>(done, group_, i));
    }
  }

  __device__ __forceinline__ void load(int place, const Chunk& chunk) {
    unsigned char* slot = Layout::loads(group_, place);
    FullBarrier& barrier = Layout::loaded(group_, place);
    barrier.arrive_and_expect_tx(Layout::kLoadSlots * kSlotBytes);
    Epilogue::Tiles::for_each([&](auto type, int i) {
      if (Config::kPlainLoads >> i & 1) return;
      constexpr int kColumns = 128 / sizeof(typename decltype(type)::Storage);
      const Batch batch = batch_of(p_, abi::kFirstTile + i, chunk.batch);
#pragma unroll
      for (int c = 0; c < kChunkColumns; c += kColumns, slot += kSlotBytes) {
        load_box<Config::kBatched>(p_.tiles[i], barrier, slot, chunk.row, chunk.col + c, batch);
      }
    });
  }

  __device__ __forceinline__ void send(int place, const Chunk& chunk) {
    const unsigned char* slot = Layout::stores(group_, place);
    cute::tma_store_fence();  // of what the consumer wrote
    if (Config::kTwoWidths && chunk.is_cut) {
      copy_out(slot, chunk);
    } else if (lane_ == 0) {
      Epilogue::Stores::for_each([&](auto type, int i) {
        if (Config::kPlainStores >> i & 1) return;
        constexpr int kColumns = 128 / sizeof(typename decltype(type)::Storage);
        const Batch batch = batch_of(p_, abi::kFirstStore + i, chunk.batch);
#pragma unroll
        for (int c = 0; c < kChunkColumns; c += kColumns, slot += kSlotBytes) {
          store_box<Config::kBatched>(p_.stores[i], slot, chunk.row, chunk.col + c, batch);
        }
      });
    }
    // Where nothing was queued this is an empty group: groups are counted.
    if (lane_ == 0) cute::tma_store_arrive();
  }

  // A cut chunk's slots to memory, 16 bytes a lane: a TMA box would overwrite the next tile.
  __device__ __forceinline__ void copy_out(const unsigned char* slot, const Chunk& chunk) const {
    const int first = lane_ >> 3, piece = lane_ & 7;
    Epilogue::Stores::for_each([&](auto type, int store) {
      if (Config::kPlainStores >> store & 1) return;
      using Storage = typename decltype(type)::Storage;
      constexpr int kPiece = 16 / sizeof(Storage), kColumns = 128 / sizeof(Storage);
      const abi::Matrix& matrix = p_.plain_stores[store];
      auto* to = static_cast<Storage*>(matrix.data) + (chunk.row + first) * matrix.row_stride +
                 chunk.col + piece * kPiece;
      if constexpr (Config::kBatched) to += offset_of(matrix.batch, chunk.batch);
#pragma unroll 1
      for (int r = first; r < min(kBlockRows, p_.m - chunk.row); r += 4) {
        const unsigned char* from = slot + r * 128 + ((piece ^ (r & 7)) << 4);
#pragma unroll 1
        for (int c = piece * kPiece; c < kCutColumns; c += kColumns, from += kSlotBytes) {
          *reinterpret_cast<uint4*>(to + c - piece * kPiece) =
              *reinterpret_cast<const uint4*>(from);
        }
        to += 4 * matrix.row_stride;
      }
      slot += kChunkColumns / kColumns * kSlotBytes;
    });
    __syncwarp();
  }

  // Until all but the last kLeft chunks' stores have read their staging.
  template <int kLeft>
  __device__ __forceinline__ void await_stores() {
    if (lane_ == 0) cute::tma_store_wait<kLeft>();
  }

  // Gives back the place of the oldest chunk that was sent: all but kStoreDepth - 1 have been read.
  __device__ __forceinline__ void release() {
    if (num_unread_ == Config::kStoreDepth - 1) {
      if (lane_ == 0) Layout::sent(group_, (ring_.stage + 1) % Config::kStoreDepth).arrive();
    } else {
      ++num_unread_;
    }
  }

  const abi::GemmParams& p_;
  int group_, lane_;
  RingPosition<Layout::kStagedDepth> ring_;
  int num_unread_ = 0;
};

}  // namespace epifuse::sm90
