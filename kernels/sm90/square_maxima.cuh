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
  // A tile's are written while some warps may still read those of the tile before.
  static constexpr int kBytes = 2 * kAllWarps * kFloats * 4;
  static_assert(!kExist || (Config::Consumers::kSplitK == 1 && !Config::Scheduler::kGrouped));
  static_assert(!kExist || kConsumerRows == kRows ||
                (Config::Consumers::kCooperative && 2 * kConsumerRows == kRows));

  // `measure(i)` leaves the maxima of the block of columns that begins with the consumer's i-th
  // chunk in `maxima`. `shared`: kBytes. For all warps that have rows of the squares.
  template <class Measure>
  __device__ __forceinline__ void find(float* shared, Maxima& maxima, int group, int warp, int lane,
                                       Measure measure) {
    constexpr int kChunks = kChunksAcross<Config>;
#pragma unroll
    for (int i = 0; i < kChunksOfConsumer<Config>; i += kChunksOfSquare) {
      measure(i);
#pragma unroll
      for (int b = 0; b < kCount; ++b) {
        float& value = largest_[place(i, b)];
        const float of_warp = combine<Reduce::max>(maxima.largest[0][b], maxima.largest[1][b]);
        value = i < kChunks ? of_warp : combine<Reduce::max>(value, of_warp);
      }
    }
    shared += turn_ * (kAllWarps * kFloats);
    turn_ ^= 1;
    float* const of_consumer = shared + group * (kWarpsOfConsumer * kFloats);
#pragma unroll
    for (int f = 0; f < kFloats; ++f) {
      const float value = over_rows(largest_[f]);
      if (lane == 0) of_consumer[warp * kFloats + f] = value;
    }
    NamedBarrier::sync(kWarps * 32, kAreShared ? kSquaresBarrier : group);
    const float* const of_warps = kAreShared ? shared : of_consumer;
#pragma unroll
    for (int f = 0; f < kFloats; ++f) {
      largest_[f] = of_warps[f];
#pragma unroll
      for (int w = 1; w < kWarps; ++w) {
        largest_[f] = combine<Reduce::max>(largest_[f], of_warps[w * kFloats + f]);
      }
    }
  }

  // Those of the block of columns that begins with the consumer's i-th chunk.
  __device__ __forceinline__ void put(int i, Maxima& maxima) const {
#pragma unroll
    for (int b = 0; b < kCount; ++b) {
      maxima.largest[0][b] = maxima.largest[1][b] = largest_[place(i, b)];
    }
  }

 private:
  static __device__ __forceinline__ constexpr int place(int i, int b) {
    return i % kChunksAcross<Config> / kChunksOfSquare * kCount + b;
  }
  // Lanes of one row have the same.
  static __device__ __forceinline__ float over_rows(float value) {
#pragma unroll
    for (int distance = 4; distance < 32; distance *= 2) {
      value = combine<Reduce::max>(value, __shfl_xor_sync(0xffffffffu, value, distance));
    }
    return value;
  }

  float largest_[at_least_one(kFloats)];
  int turn_ = 0;
};

}  // namespace epifuse::sm90
