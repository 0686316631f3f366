// What a warp's part of a tile adds to row and column reductions: one value per row, or per column,
// that goes to a workspace. A tail combines the values of all warps afterwards.
//
// Each warp writes its own values, and lanes are combined in a fixed order: equal inputs give equal
// bits. What lies outside of the result does not count.
#pragma once

#include "kernels/common/operands.cuh"
#include "kernels/sm80/tile.cuh"

namespace epifuse::sm80 {

// kLanes lanes side by side have a row, kVector columns each; below them are others with the next
// rows.
template <class Config, int kLanes, int kVector>
class WarpReduction {
  using Rows = typename Config::RowReductions;
  using Cols = typename Config::ColReductions;

 public:
  static constexpr int kCount = Rows::kCount + Cols::kCount;

  __device__ __forceinline__ explicit WarpReduction(int lane) : lane_(lane) {
    Cols::for_each([&](auto tag, int i) {
#pragma unroll
      for (int e = 0; e < kVector; ++e) columns_[i][e] = identity<decltype(tag)::kValue>();
    });
  }

  // The values of `columns` columns of a row, those of the row reductions first; 0: of none. Rows
  // come in order. To be called by all lanes of a warp.
  template <int kValues>
  __device__ __forceinline__ void add(const abi::GemmParams& p, const Tile& tile, int part, int row,
                                      int columns, const float (&values)[kVector][kValues]) {
    constexpr int kFirst = kValues - kCount;
    Rows::for_each([&](auto tag, int i) {
      constexpr Reduce kReduce = decltype(tag)::kValue;
      float value = identity<kReduce>();
#pragma unroll
      for (int e = 0; e < kVector; ++e) {
        if (e < columns) value = combine<kReduce>(value, values[e][kFirst + i]);
      }
#pragma unroll
      for (int distance = 1; distance < kLanes; distance *= 2) {
        value = combine<kReduce>(value, __shfl_xor_sync(0xffffffffu, value, distance));
      }
      if (lane_ % kLanes == 0 && columns > 0) put(p, tile, i, part, row, value);
    });
    Cols::for_each([&](auto tag, int i) {
      constexpr Reduce kReduce = decltype(tag)::kValue;
#pragma unroll
      for (int e = 0; e < kVector; ++e) {
        if (e >= columns) continue;
        columns_[i][e] = combine<kReduce>(columns_[i][e], values[e][kFirst + Rows::kCount + i]);
      }
    });
  }

  // After the warp's last row; of its `columns` columns the first is `column`.
  __device__ __forceinline__ void finish(const abi::GemmParams& p, const Tile& tile, int part,
                                         int column, int columns) {
    Cols::for_each([&](auto tag, int i) {
      constexpr Reduce kReduce = decltype(tag)::kValue;
#pragma unroll
      for (int e = 0; e < kVector; ++e) {
        float value = columns_[i][e];
#pragma unroll
        for (int distance = kLanes; distance < 32; distance *= 2) {
          value = combine<kReduce>(value, __shfl_xor_sync(0xffffffffu, value, distance));
        }
        if (lane_ < kLanes && e < columns) {
          put(p, tile, Rows::kCount + i, part, column + e, value);
        }
      }
    });
  }

 private:
  __device__ __forceinline__ void put(const abi::GemmParams& p, const Tile& tile, int which,
                                      int part, int at, float value) const {
    const abi::Partials& partials = p.partials[which];
    long long offset = part * partials.stride + at;
    if constexpr (Config::kBatched) offset += offset_of(partials.batch, tile.batch);
    partials.data[offset] = value;
  }

  int lane_;
  float columns_[at_least_one(Cols::kCount)][kVector];
};

}  // namespace epifuse::sm80
