// Maxima over blocks of 128 rows and columns: known before any result of a tile is. Each warp takes
// those of its own rows (kernels/sm90/block_maxima.cuh); they meet in shared memory.
#pragma once

#include "kernels/sm90/block_maxima.cuh"
#include "kernels/sm90/primitives.cuh"
#include "kernels/sm90/tile_scheduler.cuh"

namespace epifuse::sm90 {

constexpr int kSquaresBarrier = 2;  // of both consumers, which take no turns and split no K

template <class Config, class Epilogue>
class SquareMaxima {
  using Maxima = BlockMaxima<Config, Epilogue>;
  static constexpr int kCount = Maxima::kCount, kRows = Blocks<Epilogue>::kRows;
  static constexpr int kConsumerRows = kRowsOfConsumer<Config>;
  static constexpr int kAcross = kResultColumns<Config> / kBlockColumns;
  static constexpr int kChunksOfSquare = kBlockColumns / kChunkColumns;
  static constexpr int kParts = kBlockColumns / kWarpRows, kPartsOfBlock = kBlockRows / kWarpRows;
  // Of cooperative consumers each has half the rows of a square, or all of one.
  static constexpr bool kAreShared = kConsumerRows < kRows;
  static constexpr int kThreads = kAreShared ? 256 : 128;

 public:
  static constexpr bool kExist = kCount > 0 && kRows > 1;
  static constexpr int kFloats = kExist ? kAcross * kCount : 0;  // of 16 rows
  // Tiles take turns: those of a tile are written while some warps may read those of the last one.
  static constexpr int kBytes = 2 * 2 * kParts * kFloats * 4;
  static_assert(!kExist || (Config::Consumers::kSplitK == 1 && !Config::Scheduler::kGrouped));
  static_assert(!kExist || kConsumerRows == kRows ||
                (Config::Consumers::kCooperative && 2 * kConsumerRows == kRows));

  // `measure(i)` leaves the maxima of the block of columns that begins with the consumer's i-th
  // chunk in `maxima`. `shared`: kBytes. For all warps that have rows of the squares.
  template <class Measure>
  __device__ __forceinline__ void find(float* shared, Maxima& maxima, int group, int warp, int lane,
                                       Measure measure) {
    turn_ ^= 1;
    float* const of_rows =
        of_square(shared, group) + ((kAreShared ? group * kPartsOfBlock : 0) + warp) * kFloats;
#pragma unroll
    for (int i = 0; i < kChunksOfConsumer<Config>; i += kChunksOfSquare) {
      measure(i);
#pragma unroll
      for (int b = 0; b < kCount; ++b) {
        const float of_both = combine<Reduce::max>(maxima.largest[0][b], maxima.largest[1][b]);
        const float value = over_rows(of_both);
        const int block = i / kChunksAcross<Config>;
        if (lane == 0) of_rows[block * kPartsOfBlock * kFloats + place(i, b)] = value;
      }
    }
    NamedBarrier::sync(kThreads, kAreShared ? kSquaresBarrier : group);
  }

  // Those of the block of columns that begins with the consumer's i-th chunk. They are read where
  // they are needed, as consumers have no registers to spare.
  __device__ __forceinline__ void put(float* shared, int i, Maxima& maxima, int group) const {
    const float* const of_parts = of_square(shared, group);
#pragma unroll
    for (int b = 0; b < kCount; ++b) {
      float value = of_parts[place(i, b)];
#pragma unroll
      for (int part = 1; part < kParts; ++part) {
        value = combine<Reduce::max>(value, of_parts[part * kFloats + place(i, b)]);
      }
      maxima.largest[0][b] = maxima.largest[1][b] = value;
    }
  }

 private:
  static __device__ __forceinline__ constexpr int place(int i, int b) {
    return i % kChunksAcross<Config> / kChunksOfSquare * kCount + b;
  }
  // Those of a tile's row of squares that a consumer has rows of.
  __device__ __forceinline__ float* of_square(float* shared, int group) const {
    return shared + (turn_ * 2 + (kAreShared ? 0 : group)) * kParts * kFloats;
  }
  // Lanes of one row have the same.
  static __device__ __forceinline__ float over_rows(float value) {
#pragma unroll
    for (int distance = 4; distance < 32; distance *= 2) {
      value = combine<Reduce::max>(value, __shfl_xor_sync(0xffffffffu, value, distance));
    }
    return value;
  }

  int turn_ = 0;
};

}  // namespace epifuse::sm90
