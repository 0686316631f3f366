// Results that no box of a tensor map fits: rows of a chunk that has rows of another group, or none,
// and rows that are put where an index says. A warp copies them from staging by hand.
#pragma once

#include "kernels/integers.cuh"
#include "kernels/sm90_staging.cuh"
#include "kernels/sm90_walk.cuh"

namespace epifuse::sm90 {

// A slot's columns of one result, those that the chunk's tile and the result have: 8 lanes take 16
// bytes each of a row. Staging has unit u of row r at place u ^ r % 8.
template <class Config, class Element, bool kIndexed>
__device__ __forceinline__ void copy_slot(const abi::Matrix& to, const abi::Integers& index,
                                          const unsigned char* slot, const Chunk& chunk, int column,
                                          int columns, int row_end, int lane) {
  using Storage = typename Element::Storage;
  constexpr int kLanes = 8, kRowsAtOnce = 32 / kLanes, kInUnit = 16 / sizeof(Storage);
  const int unit = lane % kLanes;
  const int count = min(columns - unit * kInUnit, kInUnit);
  if (count <= 0) return;
  auto* first = static_cast<Storage*>(to.data) + column + unit * kInUnit;
  if constexpr (Config::kBatched) first += offset_of(to.batch, chunk.batch);
#pragma unroll 1
  for (int row = lane / kLanes; row < min(kBlockRows, row_end - chunk.row); row += kRowsAtOnce) {
    const auto* from = reinterpret_cast<const Storage*>(slot + row * 128 + (unit ^ (row & 7)) * 16);
    long long at = chunk.row + row;
    if constexpr (kIndexed) {
      at = named_row(index, at);
      if (at < 0 || at >= index.num_rows) continue;
    }
    Storage* target = first + at * to.row_stride;
    if (count == kInUnit) {
      *reinterpret_cast<uint4*>(target) = *reinterpret_cast<const uint4*>(from);
    } else {
      for (int e = 0; e < count; ++e) target[e] = from[e];
    }
  }
}

// Those results of a staged chunk whose bit is set in `which`.
template <class Config, class Epilogue>
__device__ __forceinline__ void copy_rows(const abi::GemmParams& p, const unsigned char* slot,
                                          const Chunk& chunk, unsigned which, int lane) {
  if (which == 0) return;
  const int tile_columns = kHasCuts<Config> && chunk.is_cut ? kCutColumns<Config> : kChunkColumns;
  const int all_columns = min(tile_columns, p.n - chunk.col);
  Epilogue::Stores::for_each([&](auto type, int i) {
    using Element = decltype(type);
    if (Config::kPlainStores >> i & 1) return;
    constexpr int kColumns = 128 / sizeof(typename Element::Storage);
#pragma unroll
    for (int c = 0; c < kChunkColumns; c += kColumns, slot += kSlotBytes) {
      if ((which >> i & 1) == 0) continue;
      const int columns = min(all_columns - c, kColumns);
      const int row_end = row_end_of<Config>(p, chunk);
      if (Config::kIndexedStores >> i & 1) {
        copy_slot<Config, Element, true>(p.plain_stores[i], p.rows_of_stores[i], slot, chunk,
                                         chunk.col + c, columns, row_end, lane);
      } else {
        copy_slot<Config, Element, false>(p.plain_stores[i], p.groups, slot, chunk, chunk.col + c,
                                          columns, row_end, lane);
      }
    }
  });
}

}  // namespace epifuse::sm90
