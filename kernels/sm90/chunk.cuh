// What a consumer takes through the epilogue at once: a chunk of 64 x 64 outputs, 16 rows a warp.
#pragma once

#include "kernels/common/batch.cuh"
#include "kernels/sm90/policies.cuh"

namespace epifuse::sm90 {

constexpr int kChunkColumns = 64;
constexpr int kBlockRows = 64;
constexpr int kWarpRows = 16;

// Chunks are staged in slots: 64 rows of 128 bytes, 128-byte swizzle. One takes whole slots: two of
// a 32-bit element type, one of a 16-bit one, and one that is not full of a narrower one.
constexpr int kSlotBytes = kBlockRows * 128;
constexpr int columns_of_slot(int element_bytes) {
  const int most = 128 / element_bytes;
  return most < kChunkColumns ? most : kChunkColumns;
}
constexpr int slots_of(int element_bytes) { return kChunkColumns / columns_of_slot(element_bytes); }

// Slots of a chunk of all types in a list but those whose bit in `skipped` is set.
template <class List>
constexpr int slots(unsigned skipped = 0) {
  int sum = 0;
  for (int i = 0; i < List::kCount; ++i) sum += skipped >> i & 1 ? 0 : slots_of(List::kSizes[i]);
  return sum;
}

// Types in a list whose bit is set.
template <class List>
constexpr int count(unsigned bits) {
  int sum = 0;
  for (int i = 0; i < List::kCount; ++i) sum += static_cast<int>(bits >> i & 1);
  return sum;
}

// A gated product has two results in one: a tile of B holds columns of both, and the tile of
// results has half as many.
template <class Config>
constexpr int kProducts = Config::kGates != Gates::none ? 2 : 1;
template <class Config>
constexpr int kResultColumns = Config::kTileN / kProducts<Config>;

struct Chunk {
  int row, col;  // in the result; a warp's chunk starts at its own row
  int part;      // its number among the chunks of a row of tiles
  Batch batch;
  bool is_cut = false;                      // only the first kCutColumns are this tile's
  int row_end = 0;                          // of the group
  const abi::GemmParams* params = nullptr;  // of its problem, where there are many
};

// Of a chunk from its column `c` on, in memory.
struct Corner {
  int row, col;
};
template <class Config>
__device__ __forceinline__ Corner corner_of(const Chunk& chunk, int c) {
  if constexpr (Config::Staging::kTransposed) return {chunk.col + c, chunk.row};
  return {chunk.row, chunk.col + c};
}

// Of the chunk's problem; those of all of them where there is one.
template <class Config>
__device__ __forceinline__ const abi::GemmParams& params_of(const abi::GemmParams& all,
                                                            const Chunk& chunk) {
  if constexpr (Config::Scheduler::kOwnParams) return *chunk.params;
  return all;
}

// Behind the last row of the result, or of the chunk's group.
template <class Config>
__device__ __forceinline__ int row_end_of(const abi::GemmParams& p, const Chunk& chunk) {
  return Config::Scheduler::kGrouped ? chunk.row_end : params_of<Config>(p, chunk).m;
}

// Of the last chunk of a row of chunks, where the tile is narrower than these.
template <class Config>
constexpr bool kHasCuts =
    Config::Scheduler::kTwoWidths || kResultColumns<Config> % kChunkColumns != 0;
template <class Config>
constexpr int kCutColumns =
    Config::Scheduler::kTwoWidths ? kChunkColumns - 8 : kResultColumns<Config> % kChunkColumns;

}  // namespace epifuse::sm90
