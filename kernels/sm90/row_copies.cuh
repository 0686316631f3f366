// Results whose rows TMA cannot address. A warp stages its rows of a chunk as it does for TMA, and
// copies them from there itself, so that its lanes write neighbouring elements of a row. No other
// warp has a part in it.
#pragma once

#include "kernels/common/integers.cuh"
#include "kernels/sm90/sector_copies.cuh"

namespace epifuse::sm90 {

// A warp's rows of a chunk of one result, its first `columns` columns, from `slot` and the slots
// behind it. Several units are read before they are written: a write holds up what is read next.
template <class Config, class Element>
class RowCopy {
  static constexpr int kBytes = sizeof(typename Element::Storage);
  static constexpr int kMostBytes = 8;
  // Elements of a unit, which neither a row nor what a tile has of it cuts.
  static constexpr int kAtOnce =
      Config::kCopiedAtOnce * kBytes > kMostBytes ? kMostBytes / kBytes : Config::kCopiedAtOnce;
  using Unit = CopyUnit<kAtOnce * kBytes>;
  static constexpr int kUnits = kChunkColumns / kAtOnce;  // of a row
  static constexpr int kLanes = kUnits < 32 ? kUnits : 32, kRowsAtOnce = 32 / kLanes;
  static constexpr int kTurns = kWarpRows / kRowsAtOnce;
  // Units of a row that a lane takes, and from one to the next of them: columns, bytes within a
  // slot and slots.
  static constexpr int kAcross = kUnits / kLanes, kColumnStep = kLanes * kAtOnce;
  static constexpr int kColumns = columns_of_slot(kBytes);
  static constexpr int kByteStep = kColumnStep % kColumns * kBytes;
  static constexpr int kSlotStep = kColumnStep / kColumns * kSlotBytes;
  static constexpr int kMostRead = (sizeof(Unit) > 4 ? 4 : 8) / kAcross;
  static constexpr int kRead = kTurns < kMostRead ? kTurns : kMostRead;
  static_assert(kTurns % kRead == 0);

 public:
  __device__ __forceinline__ RowCopy(const abi::Matrix& to, const unsigned char* slot,
                                     const Chunk& chunk, int columns, int rows, int lane)
      : to_(to),
        slot_(cute::cast_smem_ptr_to_uint(slot)),
        chunk_(chunk),
        columns_(columns),
        rows_(rows),
        lane_(lane) {}

  // `targets`: where indexed, lane l has the row that row l goes to, -1 for none.
  template <bool kIndexed>
  __device__ __forceinline__ void run(int targets) const {
    const int first_row = lane_ / kLanes, column = lane_ % kLanes * kAtOnce;
    const long long row_bytes = to_.row_stride * kBytes;
    const int left = columns_ - column;  // columns from the lane's first one on
    const int rows = rows_ - first_row;
    const uint32_t from = place(first_row, column);
    char* to = address(kIndexed ? 0 : chunk_.row + first_row, column);
#pragma unroll
    for (int turn = 0; turn < kTurns; turn += kRead) {
      Unit units[kRead][kAcross];
#pragma unroll
      for (int i = 0; i < kRead; ++i) {
        const int row = (turn + i) * kRowsAtOnce;
#pragma unroll
        for (int u = 0; u < kAcross; ++u) {
          units[i][u].load((from ^ (row & 7) << 4 ^ u * kByteStep) + row * 128 + u * kSlotStep);
        }
      }
#pragma unroll
      for (int i = 0; i < kRead; ++i) {
        const int row = (turn + i) * kRowsAtOnce;
        [[maybe_unused]] int target = 0;
        if constexpr (kIndexed) target = __shfl_sync(0xffffffffu, targets, row + first_row);
#pragma unroll
        for (int u = 0; u < kAcross; ++u) {
          const bool has_column = u * kColumnStep < left;
          char* first = to + u * kColumnStep * kBytes;
          if constexpr (kIndexed) {
            units[i][u].store(first + target * row_bytes, -1, has_column ? target : -1);
          } else {
            units[i][u].store(first, row, has_column ? rows : 0);
          }
        }
        if constexpr (!kIndexed) to += kRowsAtOnce * row_bytes;
      }
    }
  }

 private:
  // Staging has unit u of 16 bytes of row r at place u ^ r % 8.
  __device__ __forceinline__ uint32_t place(int row, int column) const {
    const int byte = column % kColumns * kBytes;
    return slot_ + column / kColumns * kSlotBytes + row * 128 + ((byte >> 4 ^ row) << 4) +
           (byte & 15);
  }
  __device__ __forceinline__ char* address(int row, int column) const {
    long long at = row * to_.row_stride + chunk_.col + column;
    if constexpr (Config::Scheduler::kBatched) at += offset_of(to_.batch, chunk_.batch);
    return static_cast<char*>(to_.data) + at * kBytes;
  }

  const abi::Matrix& to_;
  uint32_t slot_;
  const Chunk& chunk_;
  int columns_, rows_, lane_;
};

// Where a warp's rows of a chunk go by an index, as RowCopy wants them.
__device__ __forceinline__ int targets_of_rows(const abi::Integers& index, int first, int rows,
                                               int lane) {
  if (lane >= kWarpRows || lane >= rows) return -1;
  const long long target = named_row(index, first + lane);
  return target >= 0 && target < index.num_rows ? static_cast<int>(target) : -1;
}

// Of a warp's rows of a tile's i-th chunk, all results that are copied.
template <class Layout, class Epilogue>
__device__ __forceinline__ void copy_rows_of_warp(const abi::GemmParams& p, int group, int warp,
                                                  int i, const Chunk& chunk, int lane) {
  using Config = typename Layout::Config;
  const unsigned char* slot = Layout::copies(group) + warp * (kWarpRows * 128);
  const unsigned char* carry = Layout::carries(group) + warp * (kWarpRows * kSectorBytes);
  constexpr int kAcross = Layout::kChunksOfRow;
  const int rows = row_end_of<Config>(p, chunk) - chunk.row;
  const int tile_columns = kHasCuts<Config> && chunk.is_cut ? kCutColumns<Config> : kChunkColumns;
  const int columns = min(tile_columns, p.n - chunk.col);
  if (rows <= 0 || columns <= 0) return;
  Epilogue::Stores::for_each([&](auto type, int s) {
    using Element = decltype(type);
    if ((Config::kCopiedStores >> s & 1) == 0) return;
    const abi::Matrix& to = p.non_tma_stores[s];
    if (Config::kIndexedStores >> s & 1) {
      const RowCopy<Config, Element> copy(to, slot, chunk, columns, rows, lane);
      copy.template run<true>(targets_of_rows(p.rows_of_stores[s], chunk.row, rows, lane));
    } else if constexpr (Layout::kCarries) {
      const SectorCopy<Config, Element, Layout::kCopiesFew> copy(to, slot, carry, chunk, columns,
                                                                 rows, lane);
      const bool is_last = i % kAcross == kAcross - 1 || chunk.col + kChunkColumns >= p.n;
      copy.run(i % kAcross == 0, is_last);
      carry += kCarryBytes;
    } else {
      const RowCopy<Config, Element> copy(to, slot, chunk, columns, rows, lane);
      copy.template run<false>(0);
    }
    slot += slots<Types<Element>>() * kSlotBytes;
  });
}

}  // namespace epifuse::sm90
