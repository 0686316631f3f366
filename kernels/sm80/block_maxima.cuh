// Maxima over blocks of 128 columns, which are known before any result of the block is: each warp
// leaves those of its rows and columns in shared memory, whence all warps of a block take them.
#pragma once

#include "kernels/common/operands.cuh"
#include "kernels/common/reduce.cuh"
#include "kernels/sm80/tile.cuh"

namespace epifuse::sm80 {

// kLanes lanes side by side have a row of a warp's.
template <class Config, class Epilogue, int kLanes>
class BlockMaxima {
  static constexpr int kWarps = Config::kTileN / Config::kWarpN;  // side by side
  static constexpr int kColumns = Config::kWarpN / kProducts<Config>;
  static constexpr int kWarpsOfBlock = kBlockColumns / kColumns;

 public:
  static constexpr int kCount = Blocks<Epilogue>::kCount;
  static constexpr int kBytes = kCount * Config::kTileM * kWarps * 4;
  using Values = float[at_least_one(kCount)];
  static_assert(kCount == 0 || kWarps % kWarpsOfBlock == 0, "tiles have whole blocks");

  __device__ __forceinline__ BlockMaxima(unsigned char* shared, int warp_n, int lane)
      : shared_(reinterpret_cast<float*>(shared)), warp_n_(warp_n), lane_(lane) {}

  // Of this lane's columns of a row of the tile. To be called by all lanes of a warp.
  __device__ __forceinline__ void put(int row, const Values& values) const {
#pragma unroll
    for (int b = 0; b < kCount; ++b) {
      float value = values[b];
#pragma unroll
      for (int distance = 1; distance < kLanes; distance *= 2) {
        value = combine<Reduce::max>(value, __shfl_xor_sync(0xffffffffu, value, distance));
      }
      if (lane_ % kLanes == 0) shared_[place(b, row) + warp_n_] = value;
    }
  }

  // Of the block that this warp's columns are in, once all warps have put theirs.
  __device__ __forceinline__ void take(int row, Values& values) const {
    const int first = warp_n_ / kWarpsOfBlock * kWarpsOfBlock;
#pragma unroll
    for (int b = 0; b < kCount; ++b) {
      values[b] = shared_[place(b, row) + first];
#pragma unroll
      for (int w = 1; w < kWarpsOfBlock; ++w) {
        values[b] = combine<Reduce::max>(values[b], shared_[place(b, row) + first + w]);
      }
    }
  }

 private:
  static __device__ __forceinline__ int place(int b, int row) {
    return (b * Config::kTileM + row) * kWarps;
  }

  float* shared_;
  int warp_n_, lane_;
};

}  // namespace epifuse::sm80
