// Results that no box of a tensor map fits: rows of a chunk that has rows of another group, or
// none, and rows that are put where an index says. A warp copies them from staging by hand.
#pragma once

#include "kernels/common/integers.cuh"
#include "kernels/sm90/staging.cuh"
#include "kernels/sm90/tile_scheduler.cuh"

namespace epifuse::sm90 {

// Where the rows of a chunk go, -1 for nowhere: lane l keeps that of rows l and l + 32.
struct RowTargets {
  int kept[2];

  template <bool kIndexed>
  __device__ __forceinline__ void find(const abi::Integers& index, int first, int row_end,
                                       int lane) {
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const int row = first + i * 32 + lane;
      long long target = row;
      if (kIndexed && row < row_end) target = named_row(index, row);
      const bool is_named = !kIndexed || (target >= 0 && target < index.num_rows);
      const bool exists = row < row_end && is_named;
      kept[i] = exists ? static_cast<int>(target) : -1;
    }
  }
};

// A slot's columns of one result, those that the chunk's tile and the result have: 8 lanes take 16
// bytes each of a row. Staging has unit u of row r at place u ^ r % 8.
template <class Config, class Element>
__device__ __forceinline__ void copy_slot(const abi::Matrix& to, const RowTargets& rows,
                                          const unsigned char* slot, const Chunk& chunk, int column,
                                          int columns, int lane) {
  using Storage = typename Element::Storage;
  constexpr int kLanes = 8, kRowsAtOnce = 32 / kLanes, kInUnit = 16 / sizeof(Storage);
  const int unit = lane % kLanes;
  const int count = min(columns - unit * kInUnit, kInUnit);
  auto* first = static_cast<Storage*>(to.data) + column + unit * kInUnit;
  if constexpr (Config::Scheduler::kBatched) first += offset_of(to.batch, chunk.batch);
#pragma unroll
  for (int half = 0; half < 2; ++half) {
#pragma unroll 4
    for (int i = 0; i < 32; i += kRowsAtOnce) {
      const int row = i + lane / kLanes;
      const long long target = __shfl_sync(0xffffffffu, rows.kept[half], row);
      if (target < 0) continue;
      const auto* from = reinterpret_cast<const Storage*>(slot + (half * 32 + row) * 128 +
                                                          (unit ^ (row & 7)) * 16);
      Storage* out = first + target * to.row_stride;
      if (count == kInUnit) {
        *reinterpret_cast<uint4*>(out) = *reinterpret_cast<const uint4*>(from);
      } else {
        for (int e = 0; e < count; ++e) out[e] = from[e];
      }
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
    if (Config::kNonTmaStores >> i & 1) return;
    constexpr int kColumns = columns_of_slot(sizeof(typename Element::Storage));
    const unsigned char* first = slot;
    slot += kChunkColumns / kColumns * kSlotBytes;
    if ((which >> i & 1) == 0) return;
    const int row_end = row_end_of<Config>(p, chunk);
    RowTargets rows;
    if (Config::kIndexedStores >> i & 1) {
      rows.find<true>(p.rows_of_stores[i], chunk.row, row_end, lane);
    } else {
      rows.find<false>(p.rows_of_stores[i], chunk.row, row_end, lane);
    }
#pragma unroll
    for (int c = 0; c < kChunkColumns; c += kColumns) {
      copy_slot<Config, Element>(p.non_tma_stores[i], rows, first + c / kColumns * kSlotBytes,
                                 chunk, chunk.col + c, min(all_columns - c, kColumns), lane);
    }
  });
}

}  // namespace epifuse::sm90
