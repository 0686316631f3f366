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
  static constexpr int kWarpsOfConsumer = 4, kAllWarps = 8;
  // Of cooperative consumers each has half the rows of a square, or all of one.
  static constexpr bool kAreShared = kConsumerRows < kRows;
  static constexpr int kWarps = kAreShared ? kAllWarps : kWarpsOfConsumer;

 public:
  static constexpr bool kExist = kCount > 0 && kRows > 1;
  static constexpr int kFloats = kExist ? kAcross * kCount : 0;  // of a warp
  // Tiles take turns: those of a tile are written while some warps may read those of the last one.
  static constexpr int kBytes = 2 * kAllWarps * kFloats * 4;
  static_assert(!kExist || (Config::Consumers::kSplitK == 1 && !Config::Scheduler::kGrouped));
  static_assert(!kExist || kConsumerRows == kRows ||
                (Config::Consumers::kCooperative && 2 * kConsumerRows == kRows));

  // `measure(i)` leaves the maxima of the block of columns that begins with the consumer's i-th
  // chunk in `maxima`. `shared`: kBytes. For all warps that have rows of the squares.
  template <class Measure>
  __device__ __forceinline__ void find(float* shared, Maxima& maxima, int group, int warp, int lane,
                                       Measure measure) {
    float largest[at_least_one(kFloats)];
#pragma unroll
    for (int i = 0; i < kChunksOfConsumer<Config>; i += kChunksOfSquare) {
      measure(i);
#pragma unroll
      for (int b = 0; b < kCount; ++b) {
        float& value = largest[place(i, b)];
        const float of_warp = combine<Reduce::max>(maxima.largest[0][b], maxima.largest[1][b]);
        value = i < kChunksAcross<Config> ? of_warp : combine<Reduce::max>(value, of_warp);
      }
    }
    turn_ ^= 1;
    float* const of_warp = of_consumer(shared, group) + warp * kFloats;
#pragma unroll
    for (int f = 0; f < kFloats; ++f) {
      const float value = over_rows(largest[f]);
      if (lane == 0) of_warp[f] = value;
    }
    NamedBarrier::sync(kWarps * 32, kAreShared ? kSquaresBarrier : group);
  }

  // Those of the block of columns that begins with the consumer's i-th chunk. They are read where
  // they are needed, as consumers have no registers to spare.
  __device__ __forceinline__ void put(float* shared, int i, Maxima& maxima, int group) const {
    const float* const of_warps = of_consumer(shared, kAreShared ? 0 : group);
#pragma unroll
    for (int b = 0; b < kCount; ++b) {
      float value = of_warps[place(i, b)];
#pragma unroll
      for (int w = 1; w < kWarps; ++w) {
        value = combine<Reduce::max>(value, of_warps[w * kFloats + place(i, b)]);
      }
      maxima.largest[0][b] = maxima.largest[1][b] = value;
    }
  }

 private:
  static __device__ __forceinline__ constexpr int place(int i, int b) {
    return i % kChunksAcross<Config> / kChunksOfSquare * kCount + b;
  }
  // Of a tile's maxima.
  __device__ __forceinline__ float* of_consumer(float* shared, int group) const {
    return shared + (turn_ * kAllWarps + group * kWarpsOfConsumer) * kFloats;
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
