// Maxima over blocks of 128 columns, of a warp's 16 rows: known before any result of the block is.
// The values that they are of, and others that results are made of, take the sums' place.
#pragma once

#include "kernels/common/operands.cuh"
#include "kernels/common/reduce.cuh"
#include "kernels/sm90/chunk.cuh"
#include "kernels/sm90/pairs.cuh"

namespace epifuse::sm90 {

// A lane holds columns 2 (lane % 4) and the next one of each 8, of rows lane / 4 and 8 below it.
template <class Config, class Epilogue>
struct BlockMaxima {
  static constexpr int kCount = Blocks<Epilogue>::kCount;
  static constexpr int kColumnsAtOnce = 16;
  using Values = float[at_least_one(kCount)];

  Values largest[2];  // of either row

  // `acc`, `second`: the lane's sums of the block, as the epilogue of its first chunk has them.
  // `rows`: of the lane's first column. `columns` of the result are there from that one on.
  // `read_tiles(first, at)` reads into `x` the full operands at the lane's `at`-th value, of 8, of
  // the 16 columns from `first` on; all are asked for in order.
  template <class ReadTiles>
  __device__ __forceinline__ void measure(Operands<Epilogue>& x, const float* low_cols,
                                          const float* high_cols, float* acc, float* second,
                                          const float* rows, int columns, int lane,
                                          ReadTiles read_tiles) {
    static_assert(kCount == 0 ||
                  (!kHasCuts<Config> && kResultColumns<Config> % kBlockColumns == 0));
#pragma unroll
    for (int b = 0; b < kCount; ++b) largest[0][b] = largest[1][b] = identity<Reduce::max>();
#pragma unroll
    for (int first = 0; first < kBlockColumns; first += kColumnsAtOnce) {
      float* sums = acc + first / 2;
      const auto read = [&](int at) { read_tiles(first, at); };
      if constexpr (Config::kGates == Gates::by_turns) {
        float pairs[2][8];
        sums = acc + first;
        part_pairs(sums, pairs, lane);
        add(x, low_cols, high_cols, pairs[0], pairs[1], rows + first, columns - first, read);
#pragma unroll
        for (int at = 0; at < 16; ++at) sums[at] = pairs[at >> 3][at & 7];
      } else {
        add(x, low_cols, high_cols, sums, second + first / 2, rows + first, columns - first, read);
      }
    }
#pragma unroll
    for (int b = 0; b < kCount; ++b) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        float& value = largest[half][b];
        value = combine<Reduce::max>(value, __shfl_xor_sync(0xffffffffu, value, 1));
        value = combine<Reduce::max>(value, __shfl_xor_sync(0xffffffffu, value, 2));
      }
    }
  }

 private:
  // Of 16 columns.
  template <class ReadTiles>
  __device__ __forceinline__ void add(Operands<Epilogue>& x, const float* low_cols,
                                      const float* high_cols, float* acc, float* second,
                                      const float* rows, int columns, ReadTiles read_tiles) {
#pragma unroll
    for (int at = 0; at < 8; ++at) {
      const int half = at >> 1 & 1, column = (at >> 2) * 8 + (at & 1);
#pragma unroll
      for (int i = 0; i < Epilogue::Rows::kCount; ++i) {
        x.row[i] = rows[i * kResultColumns<Config> + column];
      }
#pragma unroll
      for (int i = 0; i < Epilogue::Cols::kCount; ++i) {
        x.col[i] = half == 0 ? low_cols[i] : high_cols[i];
      }
      read_tiles(at);
      Values values;
      if constexpr (Config::kGates != Gates::none) {
        Epilogue::measure(acc[at], second[at], x, values);
      } else {
        Epilogue::measure(acc[at], x, values);
      }
#pragma unroll
      for (int b = 0; b < kCount; ++b) {
        const float larger = combine<Reduce::max>(largest[half][b], values[b]);
        if (column < columns) largest[half][b] = larger;
      }
    }
  }
};

}  // namespace epifuse::sm90
