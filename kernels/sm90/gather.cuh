// Rows of A that are looked up: no box of a tensor map has them, so the warps beside the producer
// copy them to the stages, 16 bytes at a time, by cp.async. A stage's barrier counts every lane of
// them, which arrives when its copies have landed. As wgmma reads through another proxy, consumers
// fence before they multiply: a fence here would wait for all copies under way.
#pragma once

#include "kernels/common/integers.cuh"
#include "kernels/sm90/layout.cuh"
#include "kernels/sm90/start.cuh"
#include "kernels/sm90/tile_scheduler.cuh"

namespace epifuse::sm90 {

// 16 bytes from global to shared memory; of the first so many, the rest become zeros.
__device__ __forceinline__ void copy_async(uint32_t shared, const unsigned char* global) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" : : "r"(shared), "l"(global) : "memory");
}
__device__ __forceinline__ void copy_async(uint32_t shared, const unsigned char* global,
                                           int bytes) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;"
               :
               : "r"(shared), "l"(global), "r"(bytes)
               : "memory");
}

// One of kMovers warps; they take turns at four rows of a tile, 8 lanes each. A lane keeps where it
// reads of each of its rows, so that a turn is an addition and a copy (docs/gotchas-groups.md).
template <class Config, class Epilogue>
class Gatherer {
  using Layout = SharedLayout<Config, Epilogue>;
  static constexpr int kUnits = 8, kRowsAtOnce = 32 / kUnits, kUnitBytes = 16;
  static constexpr int kRowsOfTurn = kRowsAtOnce * kMovers;
  static constexpr int kTurns = (Config::kTileM + kRowsOfTurn - 1) / kRowsOfTurn;
  static constexpr int kStepBytes = kUnits * kUnitBytes, kElementBytes = 2;
  static_assert(Config::Producer::kAIsKMajor && Config::kTileK * kElementBytes == kStepBytes);

 public:
  __device__ __forceinline__ Gatherer(const abi::GemmParams& p, int mover)
      : p_(p),
        row_(mover * kRowsAtOnce + (threadIdx.x & 31) / kUnits),
        unit_(threadIdx.x % kUnits) {}

  __device__ __forceinline__ void run() {
    const int steps = steps_of<Config>(p_).count;
    const int whole_steps = p_.k / Config::kTileK;
    start<Config>(p_);
    AnnouncedScheduler<Config> tiles;
#pragma unroll 1
    for (; tiles.take(); ++tiles.number) {
      find_rows(tiles);
      is_short_ = kHasShortTiles<Config> && tiles.group.is_short;
#pragma unroll 1
      for (int i = 0; i < steps; ++i) {
        Layout::empty(ring_.stage).wait(ring_.phase ^ 1);
        if (i < whole_steps) {
          copy<true>(i);
        } else {
          copy<false>(i);
        }
        arrive_after_copies(Layout::full(ring_.stage));
        ring_.next();
      }
    }
  }

 private:
  // Rows behind the group's end are not written: any will do.
  __device__ __forceinline__ void find_rows(const TileScheduler<Config>& tiles) {
    const auto* first = static_cast<const unsigned char*>(p_.gathered_a.data) + unit_ * kUnitBytes;
#pragma unroll
    for (int turn = 0; turn < kTurns; ++turn) {
      const int row = min(tiles.m + turn * kRowsOfTurn + row_, tiles.group.row_end - 1);
      from_[turn] =
          first + row_to_read(p_.rows_of_a, row) * p_.gathered_a.row_stride * kElementBytes;
    }
  }

  // A step of all rows. Staging has unit u of row r at place u ^ r % 8; rows of a turn and of the
  // next but one are a multiple of 8 apart.
  template <bool kWhole>
  __device__ __forceinline__ void copy(int step) {
    const uint32_t stage = cute::cast_smem_ptr_to_uint(Layout::a(ring_.stage)) + row_ * kStepBytes;
    const uint32_t even = stage + (unit_ ^ (row_ & 7)) * kUnitBytes;
    const uint32_t odd = stage + (unit_ ^ (row_ + kRowsOfTurn & 7)) * kUnitBytes;
    const int left = p_.k * kElementBytes - step * kStepBytes - unit_ * kUnitBytes;
    const int bytes = max(min(left, kUnitBytes), 0);
    const int offset = kWhole || bytes > 0 ? step * kStepBytes : 0;
#pragma unroll
    for (int turn = 0; turn < kTurns; ++turn) {
      const bool may_be_outside = (turn + 1) * kRowsOfTurn > Config::kTileM;
      if (may_be_outside && turn * kRowsOfTurn + row_ >= Config::kTileM) continue;
      if (turn * kRowsOfTurn >= kBlockRows && is_short_) continue;
      const uint32_t to = (turn % 2 == 0 ? even : odd) + turn * kRowsOfTurn * kStepBytes;
      if constexpr (kWhole) {
        copy_async(to, from_[turn] + offset);
      } else {
        copy_async(to, from_[turn] + offset, bytes);
      }
    }
  }

  const abi::GemmParams& p_;
  int row_, unit_;  // of the tile, in the first turn; of the row
  const unsigned char* from_[kTurns];
  bool is_short_ = false;
  RingPosition<Config::kStages> ring_;
};

}  // namespace epifuse::sm90
