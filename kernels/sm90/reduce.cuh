// What a warp's chunk of 16 x 64 outputs adds to row and column reductions: one value per row, or
// per column, that goes to a workspace. A tail combines the values of all chunks afterwards.
//
// Each chunk writes its own values, and lanes are combined in a fixed order: equal inputs give
// equal bits. What lies outside of the result, or of a narrow tile, does not count.
#pragma once

#include "kernels/common/operands.cuh"
#include "kernels/common/reduce.cuh"
#include "kernels/sm90/chunk.cuh"

namespace epifuse::sm90 {

// A lane holds columns 2 (lane % 4) and the next one of each 8, of rows lane / 4 and 8 below it.
template <class Config>
class ChunkReduction {
  using Rows = typename Config::RowReductions;
  using Cols = typename Config::ColReductions;
  static constexpr int kBlocks = Config::kMathColumns / 8;

 public:
  static constexpr int kCount = Rows::kCount + Cols::kCount;

  __device__ __forceinline__ ChunkReduction(const abi::GemmParams& p, const Chunk& chunk, int lane)
      : p_(p), chunk_(chunk), lane_(lane) {
    if constexpr (kCount > 0) {
      columns_ = p.n - chunk.col - (lane & 3) * 2;
      if (kHasCuts<Config> && chunk.is_cut) {
        columns_ = min(columns_, kCutColumns<Config> - (lane & 3) * 2);
      }
      rows_ = row_end_of<Config>(p, chunk) - chunk.row - (lane >> 2);
    }
    Rows::for_each([&](auto tag, int i) {
      row_values_[i][0] = row_values_[i][1] = identity<decltype(tag)::kValue>();
    });
  }

  // Values at the lane's first and second column of the chunk's q-th 8, of its row number `half`:
  // those of the row reductions, then of the column reductions. Half 0 comes before half 1.
  __device__ __forceinline__ void add(int q, int half, const float* first, const float* second) {
    Rows::for_each([&](auto tag, int i) {
      constexpr Reduce kReduce = decltype(tag)::kValue;
      float& value = row_values_[i][half];
      if (q * 8 < columns_) value = combine<kReduce>(value, first[i]);
      if (q * 8 + 1 < columns_) value = combine<kReduce>(value, second[i]);
    });
    Cols::for_each([&](auto tag, int i) {
      constexpr Reduce kReduce = decltype(tag)::kValue;
      float(&values)[2] = col_values_[i][q % kBlocks];
      const float x[2] = {first[Rows::kCount + i], second[Rows::kCount + i]};
#pragma unroll
      for (int e = 0; e < 2; ++e) {
        const float counted = half * 8 < rows_ ? x[e] : identity<kReduce>();
        values[e] = half == 0 ? counted : combine<kReduce>(values[e], counted);
      }
    });
  }

  // After kMathColumns columns, the first of which is `first`. Of each 16, eight lanes hold parts
  // of the same four: every exchange gives away half of them, and two lanes end with one column.
  __device__ __forceinline__ void finalize_columns(int first) const {
    Cols::for_each([&](auto tag, int i) {
      constexpr Reduce kReduce = decltype(tag)::kValue;
      const bool second_block = lane_ & 16, second_column = lane_ & 8;
      const int at = first + second_block * 8 + second_column;
#pragma unroll
      for (int block = 0; block < kBlocks; block += 2) {
        const float(&x)[2] = col_values_[i][block], (&y)[2] = col_values_[i][block + 1];
        const float a = exchange<kReduce>(x[0], y[0], second_block, 16);
        const float b = exchange<kReduce>(x[1], y[1], second_block, 16);
        float value = exchange<kReduce>(a, b, second_column, 8);
        value = combine<kReduce>(value, __shfl_xor_sync(0xffffffffu, value, 4));
        const int column = at + block * 8;
        if ((lane_ & 4) != 0 || column >= columns_) continue;
        put(Rows::kCount + i, chunk_.row / kWarpRows, chunk_.col + (lane_ & 3) * 2 + column, value);
      }
    });
  }

  // After the whole chunk.
  __device__ __forceinline__ void finalize_rows() const {
    Rows::for_each([&](auto tag, int i) {
      constexpr Reduce kReduce = decltype(tag)::kValue;
      const bool second_half = lane_ & 1;
      float value = exchange<kReduce>(row_values_[i][0], row_values_[i][1], second_half, 1);
      value = combine<kReduce>(value, __shfl_xor_sync(0xffffffffu, value, 2));
      const int row = second_half * 8;
      if ((lane_ & 2) == 0 && row < rows_) {
        put(i, chunk_.part, chunk_.row + (lane_ >> 2) + row, value);
      }
    });
  }

 private:
  // Keeps one of two values, gives the other to the lane `distance` away and takes in its.
  template <Reduce kReduce>
  static __device__ __forceinline__ float exchange(float first, float second, bool keep_second,
                                                   int distance) {
    const float given = keep_second ? first : second, kept = keep_second ? second : first;
    return combine<kReduce>(kept, __shfl_xor_sync(0xffffffffu, given, distance));
  }

  __device__ __forceinline__ void put(int which, int part, int at, float value) const {
    const abi::Partials& partials = p_.partials[which];
    long long offset = part * partials.stride + at;
    if constexpr (Config::Scheduler::kBatched) offset += offset_of(partials.batch, chunk_.batch);
    partials.data[offset] = value;
  }

  const abi::GemmParams& p_;
  const Chunk& chunk_;
  int lane_;
  int rows_ = 0, columns_ = 0;  // of the result, from this lane's first row and column on
  float row_values_[at_least_one(Rows::kCount)][2];
  float col_values_[at_least_one(Cols::kCount)][kBlocks][2];
};

}  // namespace epifuse::sm90
