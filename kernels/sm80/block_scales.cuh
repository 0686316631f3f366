// Scales of blocks of K, by which a lane multiplies the sums of an instruction before it adds them.
// They are read from memory a step ahead.
#pragma once

#include "kernels/sm80/tile.cuh"

namespace epifuse::sm80 {

// Where blocks have none.
template <class Config, bool = Config::kHasBlockScales>
struct BlockScaler {
  __device__ __forceinline__ BlockScaler(const abi::GemmParams&, const Tile&, int, int, int, int) {}
  __device__ __forceinline__ void fetch(int) {}
  __device__ __forceinline__ void take() {}
};

template <class Config>
class BlockScaler<Config, true> {
  static constexpr int kBlocksM = Config::kWarpM / 16, kBlocksN = Config::kWarpN / 8;
  static constexpr int kStepK = Config::kStepBytes;                    // of 8-bit elements
  static constexpr int kColumns = Config::kWarpN / kProducts<Config>;  // of results
  // Runs of the warp's columns, each of one product; where products come by turns, of both.
  static constexpr bool kByWarp = Config::kScalesByWarp;
  static constexpr int kRuns = Config::kGated && !Config::kAdjacentGates ? 2 : 1;
  static constexpr int kScalesOfB = kByWarp ? kRuns : kBlocksN * 2;
  static_assert(sizeof(typename Config::Element::Storage) == 1);

 public:
  // `first`: the step of K that step 0 is.
  __device__ __forceinline__ BlockScaler(const abi::GemmParams& p, const Tile& tile, int warp_m,
                                         int warp_n, int lane, int first)
      : p_(p), tile_(tile), warp_m_(warp_m), warp_n_(warp_n), lane_(lane), first_(first) {}

  __device__ __forceinline__ void fetch(int step) {
    const int block = (first_ + step) * kStepK / 128;
    const bool exists = block < p_.a_scales.blocks;
#pragma unroll
    for (int i = 0; i < kBlocksM * 2; ++i) {
      const int at = placed<Config::kAIsKMajor>((i & 1) * 8 + (lane_ >> 2));
      const int row = tile_.m + warp_m_ * Config::kWarpM + i / 2 * 16 + at;
      next_rows_[i] = exists && row < p_.m ? scale(p_.a_scales, row, block) : 0.0f;
    }
#pragma unroll
    for (int i = 0; i < kScalesOfB; ++i) {
      if constexpr (kByWarp) {
        next_columns_[i] = exists ? of_column(i * kColumns, block) : 0.0f;
        continue;
      }
      const int at = placed<Config::kBIsKMajor>((i >> 1 & 1) * 8 + (lane_ & 3) * 2 + (i & 1));
      next_columns_[i] = exists ? of_column(i / 4 * 16 + at, block) : 0.0f;
    }
  }

  __device__ __forceinline__ void take() {
#pragma unroll
    for (int i = 0; i < kBlocksM * 2; ++i) {
#pragma unroll
      for (int run = 0; run < (kByWarp ? kRuns : 1); ++run) {
        factors_[i][run] = kByWarp ? next_rows_[i] * next_columns_[run] : next_rows_[i];
      }
    }
    if constexpr (!kByWarp) {
#pragma unroll
      for (int i = 0; i < kScalesOfB; ++i) columns_[i] = next_columns_[i];
    }
  }

  // Of block (i, j) of 16 rows by 8 columns.
  __device__ __forceinline__ void add(int i, int j, const float (&own)[4], float (&sums)[4]) const {
#pragma unroll
    for (int e = 0; e < 4; ++e) {
      float factor = factors_[i * 2 + e / 2][kByWarp ? j / (kBlocksN / kRuns) : 0];
      if constexpr (!kByWarp) factor *= columns_[j * 2 + e % 2];
      sums[e] = fmaf(own[e], factor, sums[e]);
    }
  }

 private:
  // Which of 16 rows of an operand stands in a place of theirs (kernels/sm80/stage.cuh).
  template <bool kIsKMajor>
  static __device__ __forceinline__ int placed(int place) {
    return kIsKMajor ? place : (place & 7) * 2 + (place >> 3);
  }

  __device__ __forceinline__ float scale(const abi::BlockScales& scales, int row, int block) const {
    const int line = (scales.first + row * scales.step) >> scales.shift;
    return scales.data[offset_of(scales.batch, tile_.batch) + line * scales.row_stride +
                       block * scales.block_stride];
  }

  // Of the warp's columns of B.
  __device__ __forceinline__ float of_column(int column, int block) const {
    if constexpr (Config::kGated && !Config::kAdjacentGates) {
      const bool is_second = column >= kColumns;
      const int of_result = tile_.n + warp_n_ * kColumns + column - (is_second ? kColumns : 0);
      if (of_result >= p_.n) return 0.0f;
      return scale(is_second ? p_.second_b_scales : p_.b_scales, of_result, block);
    } else {
      const int of_b = tile_.n * kProducts<Config> + warp_n_ * Config::kWarpN + column;
      if (of_b >= p_.n * kProducts<Config>) return 0.0f;
      return scale(p_.b_scales, of_b, block);
    }
  }

  const abi::GemmParams& p_;
  Tile tile_;
  int warp_m_, warp_n_, lane_, first_;
  float factors_[kBlocksM * 2][kByWarp ? kRuns : 1], columns_[kScalesOfB];
  float next_rows_[kBlocksM * 2], next_columns_[kScalesOfB];
};

}  // namespace epifuse::sm80
