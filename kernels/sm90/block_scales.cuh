// Scales of blocks of K, by which a consumer's thread multiplies the sums of a step before it adds
// them. They are read from memory a step ahead.
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
template <class Config, class Layout, Scaling = Config::kScaling>
struct BlockScaler {
  __device__ __forceinline__ BlockScaler(const abi::GemmParams&, const TileScheduler<Config>&,
                                         int) {}
  __device__ __forceinline__ void fetch(int) {}
  __device__ __forceinline__ void take(int, int) {}
  template <int kCount, int kAll>
  __device__ __forceinline__ void add(int, int, const float (&part)[kAll],
                                      float (&sums)[kAll]) const {
#pragma unroll
    for (int i = 0; i < kCount; ++i) sums[i] += part[i];
  }
};

// What both ways to read them have in common.
template <class Config>
struct ScalesOfTile {
  // Runs of columns, each of one product; where products come by turns, of both.
  static constexpr int kRuns = Config::kGates == Gates::halves ? 2 : 1;
  static constexpr int kRunColumns = Config::kTileN / kRuns;
  static constexpr int kColumnsOfB = Config::kGates == Gates::by_turns ? 2 : 1;

  // Rows and columns that are not there have the scales of the last one: nothing is stored of them.
  static __device__ __forceinline__ int row_at(const abi::GemmParams& p, int row) {
    return row_of_scales(p.a_scales, min(row, p.m - 1));
  }
  // Of a column of the tile of B that starts at column `n` of the result.
  static __device__ __forceinline__ int column_at(const abi::GemmParams& p, int n, int column) {
    const int of_b = n * kColumnsOfB + column - (is_second(column) ? kRunColumns : 0);
    return row_of_scales(of_column(p, column), min(of_b, p.n * kColumnsOfB - 1));
  }
  static __device__ __forceinline__ const abi::BlockScales& of_column(const abi::GemmParams& p,
                                                                      int column) {
    return is_second(column) ? p.second_b_scales : p.b_scales;
  }

 private:
  static __device__ __forceinline__ bool is_second(int column) {
    return Config::kGates == Gates::halves && column >= kRunColumns;
  }
};

// One of B for all columns: each thread reads those of its rows, and multiplies both ahead.
template <class Config, class Layout>
class BlockScaler<Config, Layout, Scaling::by_tile> {
  using Tile = ScalesOfTile<Config>;
  static constexpr int kRows = kRowsOfConsumer<Config> / kBlockRows * 2;  // of a thread
  static constexpr int kChunks = kChunksAcross<Config>;

 public:
  __device__ __forceinline__ BlockScaler(const abi::GemmParams& p,
                                         const TileScheduler<Config>& tile, int group)
      : p_(p), batch_(tile.batch) {
    const int thread = threadIdx.x & 127;
#pragma unroll
    for (int i = 0; i < kRows / 2; ++i) {
      const int row = chunk_of<Config>(tile, group, i * kChunks).row + (thread >> 5) * kWarpRows +
                      ((thread & 31) >> 2);
      rows_at_[i] = Tile::row_at(p_, row);
      rows_[i * 2] = rows_[i * 2 + 1] = 0.0f;
    }
#pragma unroll
    for (int run = 0; run < Tile::kRuns; ++run) {
      // By one of the thread's own columns: what all threads read at one address would go to a
      // uniform register, which waits for it at once.
      const int column = run * Tile::kRunColumns + (thread & 3) * 2;
      columns_at_[run] = Tile::column_at(p_, tile.n, column);
      columns_[run] = 0.0f;
    }
  }

  // Reads those of step `block`; behind the last one there are none.
  __device__ __forceinline__ void fetch(int block) {
    if (block >= p_.a_scales.blocks) return;
#pragma unroll
    for (int i = 0; i < kRows; i += 2) fetch_rows(block, i);
    fetch_columns(block);
  }

  // Those of step `block` and of the rows-th 64 rows, which were fetched, are what `add` multiplies
  // by; fetches the next step's.
  __device__ __forceinline__ void take(int block, int rows) {
#pragma unroll
    for (int run = 0; run < Tile::kRuns; ++run) {
      factors_[0][run] = rows_[rows * 2] * columns_[run];
      factors_[1][run] = rows_[rows * 2 + 1] * columns_[run];
    }
    if (block + 1 >= p_.a_scales.blocks) return;
    fetch_rows(block + 1, rows * 2);
    if (rows * 2 + 2 == kRows) fetch_columns(block + 1);
  }

  // sums += part * scales, of one block of 64 rows.
  template <int kCount, int kAll>
  __device__ __forceinline__ void add(int, int, const float (&part)[kAll],
                                      float (&sums)[kAll]) const {
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
      const float factor = factors_[i / 2 % 2][i / (kCount / Tile::kRuns)];
      sums[i] = fmaf(part[i], factor, sums[i]);
    }
  }

 private:
  __device__ __forceinline__ void fetch_rows(int block, int i) {
    const float* const of_rows = block_of_scales(p_.a_scales, block, batch_);
    // Of a row and the one 8 below, which is computed here: it is not worth a register.
    const int step = p_.a_scales.shift > 0 ? 0 : 8 * static_cast<int>(p_.a_scales.row_stride);
    const int at = rows_at_[i / 2];
    rows_[i] = of_rows[at];
    rows_[i + 1] = of_rows[min(at + step, Tile::row_at(p_, p_.m - 1))];
  }
  __device__ __forceinline__ void fetch_columns(int block) {
#pragma unroll
    for (int run = 0; run < Tile::kRuns; ++run) {
      const abi::BlockScales& scales = Tile::of_column(p_, run * Tile::kRunColumns);
      columns_[run] = block_of_scales(scales, block, batch_)[columns_at_[run]];
    }
  }

  const abi::GemmParams& p_;
  Batch batch_;
  int rows_at_[kRows / 2], columns_at_[Tile::kRuns];
  float rows_[kRows], columns_[Tile::kRuns];
  float factors_[2][Tile::kRuns];
};

// One for each column: each thread reads one or two, of rows and of columns, which meet in shared
// memory, those of two steps by turns.
template <class Config, class Layout>
class BlockScaler<Config, Layout, Scaling::by_column> {
  using Tile = ScalesOfTile<Config>;
  static constexpr int kRows = kRowsOfConsumer<Config>, kColumns = Config::kTileN;
  static constexpr int kRowLoads = (kRows + 127) / 128, kColumnLoads = (kColumns + 127) / 128;
  static_assert(Layout::kScaleBytes == 2 * (kRows + kColumns) * 4);

 public:
  __device__ __forceinline__ BlockScaler(const abi::GemmParams& p,
                                         const TileScheduler<Config>& tile, int group)
      : p_(p), batch_(tile.batch), group_(group), thread_(threadIdx.x & 127) {
    const int first = chunk_of<Config>(tile, group, 0).row;
#pragma unroll
    for (int i = 0; i < kRowLoads; ++i) {
      rows_at_[i] = Tile::row_at(p_, first + i * 128 + thread_);
      rows_[i] = 0.0f;
    }
#pragma unroll
    for (int i = 0; i < kColumnLoads; ++i) {
      columns_at_[i] = Tile::column_at(p_, tile.n, i * 128 + thread_);
      columns_[i] = 0.0f;
    }
  }

  __device__ __forceinline__ void fetch(int block) {
    if (block >= p_.a_scales.blocks) return;
    const float* const of_rows = block_of_scales(p_.a_scales, block, batch_);
#pragma unroll
    for (int i = 0; i < kRowLoads; ++i) rows_[i] = of_rows[rows_at_[i]];
#pragma unroll
    for (int i = 0; i < kColumnLoads; ++i) {
      const abi::BlockScales& scales = Tile::of_column(p_, i * 128 + thread_);
      columns_[i] = block_of_scales(scales, block, batch_)[columns_at_[i]];
    }
  }

  __device__ __forceinline__ void take(int block, int rows) {
    if (rows > 0) return;
    float* const shared = at(block);
    put<kRows>(rows_, shared);
    put<kColumns>(columns_, shared + kRows);
    // Whoever is here has read those of the step before, which the next one overwrites.
    NamedBarrier::sync(128, group_);
    fetch(block + 1);
  }

  template <int kCount, int kAll>
  __device__ __forceinline__ void add(int block, int rows, const float (&part)[kAll],
                                      float (&sums)[kAll]) const {
    const float* const shared = at(block);
    const float* const row =
        shared + rows * kBlockRows + (thread_ >> 5) * kWarpRows + ((thread_ & 31) >> 2);
    const float of_rows[2] = {row[0], row[8]};
    const float2* const columns = reinterpret_cast<const float2*>(shared + kRows) + (thread_ & 3);
#pragma unroll
    for (int i = 0; i < kCount; i += 4) {
      const float2 column = columns[i];
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        const float factor = of_rows[j / 2] * (j % 2 == 0 ? column.x : column.y);
        sums[i + j] = fmaf(part[i + j], factor, sums[i + j]);
      }
    }
  }

 private:
  template <int kCount, int kLoads>
  __device__ __forceinline__ void put(const float (&scales)[kLoads], float* shared) const {
#pragma unroll
    for (int i = 0; i < kLoads; ++i) {
      const int at = i * 128 + thread_;
      if (kCount % 128 == 0 || at < kCount) shared[at] = scales[i];
    }
  }
  // The scales of a step.
  __device__ __forceinline__ float* at(int block) const {
    return reinterpret_cast<float*>(shared_memory() + Layout::kScalesAt +
                                    group_ * Layout::kScaleBytes) +
           (block & 1) * (kRows + kColumns);
  }

  const abi::GemmParams& p_;
  Batch batch_;
  int group_, thread_;
  int rows_at_[kRowLoads], columns_at_[kColumnLoads];
  float rows_[kRowLoads], columns_[kColumnLoads];
};

}  // namespace epifuse::sm90
