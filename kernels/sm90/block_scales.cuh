// Scales of blocks of K, by which a consumer's thread multiplies the sums of a step before it adds
// them. They are read from memory a step ahead: those of A's rows, and of B the tile's or those of
// its columns, which meet in shared memory.
#pragma once

#include "kernels/sm90/tile_scheduler.cuh"

namespace epifuse::sm90 {

__device__ __forceinline__ float block_scale(const abi::BlockScales& scales, int row, int block,
                                             Batch batch) {
  const int line = (scales.first + row * scales.step) >> scales.shift;
  return __ldg(scales.data + offset_of(scales.batch, batch) + line * scales.row_stride +
               block * scales.block_stride);
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
  __device__ __forceinline__ BlockScaler(const abi::GemmParams& p, const TileScheduler<Config>& tile,
                                         int group)
      : p_(p), tile_(tile), group_(group) {}

  // Reads those of the tile's step `block`; zeros behind the last one.
  __device__ __forceinline__ void fetch(int block) {
    const int thread = threadIdx.x & 127;
    const bool exists = block < p_.a_scales.blocks;
#pragma unroll
    for (int b = 0; b < kBlocks * 2; ++b) {
      const int row = chunk_of<Config>(tile_, group_, b / 2 * kChunks).row +
                      (thread >> 5) * kWarpRows + ((thread & 31) >> 2) + b % 2 * 8;
      rows_[b] = exists && row < p_.m ? block_scale(p_.a_scales, row, block, tile_.batch) : 0.0f;
    }
#pragma unroll
    for (int i = 0; i < kColumns; ++i) {
      columns_[i] = exists ? of_column(kByColumn ? i * 128 + thread : i * kRunColumns, block) : 0.0f;
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
        sums[i] =
            fmaf(part[i], factors_[rows * 2 + i / 2 % 2][i / (kCount / kRuns)], sums[i]);
      }
    }
  }

 private:
  __device__ __forceinline__ float of_column(int column, int block) const {
    if constexpr (Config::kGates == Gates::halves) {
      const bool is_second = column >= kRunColumns;
      const int of_result = tile_.n + column - (is_second ? kRunColumns : 0);
      if (of_result >= p_.n) return 0.0f;
      return block_scale(is_second ? p_.second_b_scales : p_.b_scales, of_result, block,
                         tile_.batch);
    } else {
      const int of_b = tile_.n * kProducts<Config> + column;
      if (of_b >= p_.n * kProducts<Config>) return 0.0f;
      return block_scale(p_.b_scales, of_b, block, tile_.batch);
    }
  }
  // The scales of a step's columns.
  __device__ __forceinline__ float* at(int block) const {
    return reinterpret_cast<float*>(shared_memory() + Layout::kScalesAt +
                                    group_ * Layout::kScaleBytes) +
           (block & 1) * Config::kTileN;
  }

  const abi::GemmParams& p_;
  const TileScheduler<Config>& tile_;
  int group_;
  float rows_[kBlocks * 2], columns_[kColumns];
  float factors_[kBlocks * 2][kByColumn ? 1 : kRuns];
};

}  // namespace epifuse::sm90
