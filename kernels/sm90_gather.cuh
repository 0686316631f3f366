// Rows of A that are looked up: no box of a tensor map has them, so the warps beside the producer
// copy them to the stages, 16 bytes at a time, by cp.async.
//
// The copies of some steps are under way at once. Those of a step are known to have landed when as
// many have been started after them; only then are the consumers told, as wgmma reads through
// another proxy, which the warp that wrote has to make aware of it.
#pragma once

#include "kernels/integers.cuh"
#include "kernels/sm90_layout.cuh"
#include "kernels/sm90_start.cuh"
#include "kernels/sm90_walk.cuh"

namespace epifuse::sm90 {

// `bytes` of 16 from global to shared memory; the rest of the 16 become zeros.
__device__ __forceinline__ void copy_async(void* shared, const void* global, int bytes) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;"
               :
               : "r"(cute::cast_smem_ptr_to_uint(shared)), "l"(global), "r"(bytes)
               : "memory");
}
__device__ __forceinline__ void end_copies_of_step() {
  asm volatile("cp.async.commit_group;" ::: "memory");
}
// Until the copies of all but the last kLeft steps have landed.
template <int kLeft>
__device__ __forceinline__ void await_copies() {
  asm volatile("cp.async.wait_group %0;" : : "n"(kLeft) : "memory");
}

// One of kMovers warps; they take turns at four rows of a tile, 8 lanes each. A lane keeps the
// numbers of a row in 32, and lanes give them to those that copy: all of them, or their addresses,
// would take more registers than this warp has.
template <class Config, class Epilogue>
class Gatherer {
  using Layout = SharedLayout<Config, Epilogue>;
  static constexpr int kUnits = 8, kInUnit = 8, kRowsAtOnce = 32 / kUnits;  // of 16 bytes
  static constexpr int kTurns = (Config::kTileM / kRowsAtOnce + kMovers - 1) / kMovers;
  static constexpr int kTurnsOfKept = 32 / kRowsAtOnce;
  static constexpr int kKept = (kTurns + kTurnsOfKept - 1) / kTurnsOfKept;
  static constexpr int kUnderway = Config::kStages > 6 ? 4 : Config::kStages - 2;  // steps
  static_assert(Config::kAIsKMajor && Config::kTileK == kUnits * kInUnit);

 public:
  __device__ __forceinline__ Gatherer(const abi::GemmParams& p, int mover)
      : p_(p), mover_(mover), lane_(threadIdx.x & 31) {}

  __device__ __forceinline__ void run() {
    const int steps = steps_of<Config>(p_).count;
    start<Config>(p_);
    TileWalk<Config> tiles;
#pragma unroll 1
    for (int tile = tiles.first(); tiles.go(p_, tile); tile += tiles.step()) {
      find_rows(tiles);
#pragma unroll 1
      for (int i = 0; i < steps; ++i) {
        copy(i * Config::kTileK);
        if (num_untold_ == kUnderway) {
          await_copies<kUnderway>();
          tell();
        } else {
          ++num_untold_;
        }
      }
    }
    await_copies<0>();
    for (; num_untold_ > 0; --num_untold_) tell();
  }

 private:
  // Of the tile: the row that the warp's lanes copy in a turn.
  __device__ __forceinline__ int row_of(int turn, int in_turn) const {
    return (turn * kMovers + mover_) * kRowsAtOnce + in_turn;
  }

  // Rows behind the group's end are not written: any will do.
  __device__ __forceinline__ void find_rows(const TileWalk<Config>& tiles) {
#pragma unroll
    for (int i = 0; i < kKept; ++i) {
      const int turn = i * kTurnsOfKept + lane_ / kRowsAtOnce;
      const int row = tiles.m + row_of(turn, lane_ % kRowsAtOnce);
      kept_[i] = static_cast<int>(row_to_read(p_.rows_of_a, min(row, tiles.group.row_end - 1)));
    }
  }

  // Columns k and behind, of all rows.
  __device__ __forceinline__ void copy(int k) {
    Layout::empty(ring_.stage).wait(ring_.phase ^ 1);
    const int unit = lane_ % kUnits, column = k + unit * kInUnit;
    const int bytes = max(min(p_.k - column, kInUnit), 0) * 2;
    const auto* first = static_cast<const uint16_t*>(p_.gathered_a.data) + (bytes > 0 ? column : 0);
    unsigned char* stage = Layout::a(ring_.stage);
#pragma unroll
    for (int i = 0; i < kKept; ++i) {
#pragma unroll 4
      for (int turn = i * kTurnsOfKept; turn < min((i + 1) * kTurnsOfKept, kTurns); ++turn) {
        const int kept = turn % kTurnsOfKept * kRowsAtOnce + lane_ / kUnits;
        const long long from = __shfl_sync(0xffffffffu, kept_[i], kept);
        const int row = row_of(turn, lane_ / kUnits);
        if (row >= Config::kTileM) continue;
        copy_async(stage + row * 128 + (unit ^ (row & 7)) * 16,
                   first + from * p_.gathered_a.row_stride, bytes);
      }
    }
    end_copies_of_step();
    ring_.next();
  }

  // The consumers, that this warp's part of the oldest stage is there.
  __device__ __forceinline__ void tell() {
    cutlass::arch::fence_view_async_shared();
    __syncwarp();
    if (lane_ == 0) Layout::full(told_.stage).arrive();
    told_.next();
  }

  const abi::GemmParams& p_;
  int mover_, lane_;
  int kept_[kKept];
  int num_untold_ = 0;  // steps
  RingPosition<Config::kStages> ring_, told_;
};

}  // namespace epifuse::sm90
