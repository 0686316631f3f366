// Scales of blocks of K, by which a consumer's thread multiplies the sums of a step before it adds
// them. They are read from memory a step ahead: those of A's rows, and of B the tile's or those of
// its columns, which meet in shared memory.
#pragma once

#include "kernels/sm90/tile_scheduler.cuh"

namespace epifuse::sm90 {

// Where the scales of a row of an operand start, in elements: the host sees to it that 32 bits do.
__device__ __forceinline__ int row_of_scales(const abi::BlockScales& scales, int row) {
  return ((scales.first + row * scales.step) >> scales.shift) * static_cast<int>(scales.row_stride);
}
// Those of a block of all rows.
__device__ __forceinline__ const float* block_of_scales(const abi::BlockScales& scales, int block,
                                                        Batch batch) {
  return scales.data + offset_of(scales.batch, batch) + block * scales.block_stride;
}

// Where blocks have none.
template <class Config, class Layout, bool = Config::kScaling == Scaling::none>
struct BlockScaler {
  __device__ __forceinline__ BlockScaler(const abi::GemmParams&, const TileScheduler<Config>&,
                                         int) {}
  __device__ __forceinline__ void fetch(int) {}
  __device__ __forceinline__ void take(int) {}
  template <int kCount, int kAll>
  __device__ __forceinline__ void add(int, int, const float (&part)[kAll],
                                      float (&sums)[kAll]) const {
#pragma unroll
    for (int i = 0; i < kCount; ++i) sums[i] += part[i];
  }
};

template <class Config, class Layout>
class BlockScaler<Config, Layout, false> {
  static constexpr bool kByColumn = Config::kScaling == Scaling::by_column;
  static constexpr int kBlocks = kRowsOfConsumer<Config> / kBlockRows;
  static constexpr int kChunks = kChunksAcross<Config>;
  // Runs of columns, each of one product; where products come by turns, of both.
  static constexpr int kRuns = Config::kGates == Gates::halves ? 2 : 1;
  static constexpr int kRunColumns = Config::kTileN / kRuns;
  static constexpr int kColumns = kByColumn ? (Config::kTileN + 127) / 128 : kRuns;

 public:
  // Rows and columns that are not there have the scales of the last one: nothing is stored of them.
  __device__ __forceinline__ BlockScaler(const abi::GemmParams& p,
                                         const TileScheduler<Config>& tile, int group)
      : p_(p), batch_(tile.batch), group_(group) {
    const int thread = threadIdx.x & 127;
#pragma unroll
    for (int b = 0; b < kBlocks * 2; ++b) {
      const int row = chunk_of<Config>(tile, group_, b / 2 * kChunks).row +
                      (thread >> 5) * kWarpRows + ((thread & 31) >> 2) + b % 2 * 8;
      rows_at_[b] = row_of_scales(p_.a_scales, min(row, p_.m - 1));
      rows_[b] = 0.0f;
    }
#pragma unroll
    for (int i = 0; i < kColumns; ++i) {
      const int column = kByColumn ? i * 128 + thread : i * kRunColumns;
      const int of_b = tile.n * kColumnsOfB + column - (is_second(column) ? kRunColumns : 0);
      columns_at_[i] = row_of_scales(scales_of(column), min(of_b, p_.n * kColumnsOfB - 1));
      columns_[i] = 0.0f;
    }
  }

  // Reads those of the tile's step `block`; behind the last one there are none.
  __device__ __forceinline__ void fetch(int block) {
    if (block >= p_.a_scales.blocks) return;
    const float* const of_rows = block_of_scales(p_.a_scales, block, batch_);
#pragma unroll
    for (int b = 0; b < kBlocks * 2; ++b) rows_[b] = __ldg(of_rows + rows_at_[b]);
#pragma unroll
    for (int i = 0; i < kColumns; ++i) {
      const int column = kByColumn ? i * 128 + (threadIdx.x & 127) : i * kRunColumns;
      columns_[i] = __ldg(block_of_scales(scales_of(column), block, batch_) + columns_at_[i]);
    }
  }

  // Of the step that was fetched, for all threads of the consumer; then fetches the next.
  __device__ __forceinline__ void take(int block) {
#pragma unroll
    for (int b = 0; b < kBlocks * 2; ++b) {
#pragma unroll
      for (int run = 0; run < (kByColumn ? 1 : kRuns); ++run) {
        factors_[b][run] = kByColumn ? rows_[b] : rows_[b] * columns_[run];
      }
    }
    if constexpr (kByColumn) {
      float* const shared = at(block);
#pragma unroll
      for (int i = 0; i < kColumns; ++i) {
        const int column = i * 128 + (threadIdx.x & 127);
        if (Config::kTileN % 128 == 0 || column < Config::kTileN) shared[column] = columns_[i];
      }
      // Whoever is here has read those of the step before, which the next one overwrites.
      NamedBarrier::sync(128, group_);
    }
    fetch(block + 1);
  }

  // sums += part * scales, of one block of 64 rows.
  template <int kCount, int kAll>
  __device__ __forceinline__ void add(int block, int rows, const float (&part)[kAll],
                                      float (&sums)[kAll]) const {
    if constexpr (kByColumn) {
      const float2* const shared = reinterpret_cast<const float2*>(at(block)) + (threadIdx.x & 3);
#pragma unroll
      for (int i = 0; i < kCount; i += 4) {
        const float2 column = shared[i];
#pragma unroll
        for (int j = 0; j < 4; ++j) {
          const float factor = factors_[rows * 2 + j / 2][0] * (j % 2 == 0 ? column.x : column.y);
          sums[i + j] = fmaf(part[i + j], factor, sums[i + j]);
        }
      }
    } else {
#pragma unroll
      for (int i = 0; i < kCount; ++i) {
        sums[i] = fmaf(part[i], factors_[rows * 2 + i / 2 % 2][i / (kCount / kRuns)], sums[i]);
      }
    }
  }

 private:
  // Columns of a tile of B are those of two products by turns, or a run of each.
  static constexpr int kColumnsOfB = Config::kGates == Gates::by_turns ? 2 : 1;
  static __device__ __forceinline__ constexpr bool is_second(int column) {
    return Config::kGates == Gates::halves && column >= kRunColumns;
  }
  __device__ __forceinline__ const abi::BlockScales& scales_of(int column) const {
    return is_second(column) ? p_.second_b_scales : p_.b_scales;
  }
  // The scales of a step's columns.
  __device__ __forceinline__ float* at(int block) const {
    return reinterpret_cast<float*>(shared_memory() + Layout::kScalesAt +
                                    group_ * Layout::kScaleBytes) +
           (block & 1) * Config::kTileN;
  }

  const abi::GemmParams& p_;
  Batch batch_;
  int group_;
  int rows_at_[kBlocks * 2], columns_at_[kColumns];
  float rows_[kBlocks * 2], columns_[kColumns];
  float factors_[kBlocks * 2][kByColumn ? 1 : kRuns];
};

}  // namespace epifuse::sm90
