// Scales of blocks of K, by which a consumer's thread multiplies the sums of a step before it adds
// them. Where a tile's columns share one of B, a lane of a consumer reads the scale of one row two
// steps ahead, and the threads that have sums of that row get it from the lane. Where each column
// has its own, a warp beside the producer copies those of each step to shared memory.
#pragma once

#include "kernels/sm90/announce.cuh"
#include "kernels/sm90/scale_ring.cuh"
#include "kernels/sm90/tile_scheduler.cuh"

namespace epifuse::sm90 {

// Of a thread that multiplies, beside what it keeps of the tile and of the stages.
constexpr int kRegistersForSums = 208;
// Whether the products of a step are under way while those of the step before are added: of one
// block of 64 rows, where there are registers for the sums of both. Movers of rows take some.
template <class Config>
constexpr bool kMultipliesAhead =
    Config::kScaling != Scaling::none&& kRowsOfConsumer<Config> == kBlockRows &&
    3 * Config::kTileN / 2 <= kRegistersForSums &&
    !(Config::Producer::kMisalignedA || Config::Producer::kMisalignedB);

// Where the scales of a row of an operand start, in elements: the host sees to it that 32 bits do.
__device__ __forceinline__ int row_of_scales(const abi::BlockScales& scales, int row) {
  return ((scales.first + row * scales.step) >> scales.shift) * static_cast<int>(scales.row_stride);
}
// Those of a block of all rows.
__device__ __forceinline__ const float* block_of_scales(const abi::BlockScales& scales, int block,
                                                        Batch batch) {
  return scales.data + offset_of(scales.batch, batch) + block * scales.block_stride;
}

// The warp that copies them. A lane keeps where it reads those of its rows and columns.
template <class Config, class Layout, bool = ScaleRing<Config>::kExists>
class ScaleLoader {
  using Ring = ScaleRing<Config>;
  static constexpr bool kHasSecond = Config::kGates == Gates::halves;  // product, side by side
  static constexpr int kColumnsOfB = Config::kGates == Gates::by_turns ? 2 : 1;
  static constexpr int kRowLoads = Ring::kRows / 32, kColumnLoads = (Ring::kColumns + 31) / 32;

 public:
  __device__ __forceinline__ explicit ScaleLoader(const abi::GemmParams& p)
      : params_(p), lane_(threadIdx.x & 31) {}

  // To a tile. Rows and columns that are not there have the scales of the last one: nothing is
  // stored of them.
  __device__ __forceinline__ void find(const TileScheduler<Config>& tile) {
    params_.find(tile);
    batch_ = tile.batch;
#pragma unroll
    for (int i = 0; i < kRowLoads; ++i) {
      rows_at_[i] = row_of_scales(p().a_scales, min(tile.m + i * 32 + lane_, p().m - 1));
    }
#pragma unroll
    for (int i = 0; i < kColumnLoads; ++i) {
      const int column = tile.n * kColumnsOfB + at(i) % kColumnsOfProduct;
      columns_at_[i] = row_of_scales(of_column(i), min(column, p().n * kColumnsOfB - 1));
    }
  }

  // Those of a step of the tile: zeros behind the last one.
  __device__ __forceinline__ void load(int block) {
    const uint32_t phase = Ring::phase(number_);
    float* const shared = Layout::scales(number_);
    const bool exists = block < p().a_scales.blocks;
    Layout::scales_read(number_).wait(phase ^ 1);
    const float* const of_rows = block_of_scales(p().a_scales, block, batch_);
#pragma unroll
    for (int i = 0; i < kRowLoads; ++i) {
      copy_scale(shared + i * 32 + lane_, of_rows + rows_at_[i], exists);
    }
#pragma unroll
    for (int i = 0; i < kColumnLoads; ++i) {
      if (Ring::kColumns % 32 != 0 && at(i) >= Ring::kColumns) continue;
      copy_scale(shared + Ring::kRows + place(at(i)),
                 block_of_scales(of_column(i), block, batch_) + columns_at_[i], exists);
    }
    arrive_after_copies(Layout::scales_there(number_));
    ++number_;
  }

 private:
  // Of the tile of B, those of one product.
  static constexpr int kColumnsOfProduct = Ring::kColumns / (kHasSecond ? 2 : 1);
  __device__ __forceinline__ int at(int i) const { return i * 32 + lane_; }
  // Of a column's scale. A thread of a consumer has two neighbours of 8, and of the next 8: its
  // four of 16 are side by side.
  static __device__ __forceinline__ int place(int column) {
    return (column & ~15) | (column & 6) << 1 | (column & 8) >> 2 | (column & 1);
  }
  __device__ __forceinline__ const abi::BlockScales& of_column(int i) const {
    return kHasSecond && at(i) >= kColumnsOfProduct ? p().second_b_scales : p().b_scales;
  }
  __device__ __forceinline__ const abi::GemmParams& p() const { return params_.get(); }

  ParamsOfTile<Config> params_;
  int lane_;
  Batch batch_;
  int rows_at_[kRowLoads], columns_at_[kColumnLoads];
  uint32_t number_ = 0;  // of the step, among those of the CTA
};

template <class Config, class Layout>
struct ScaleLoader<Config, Layout, false> {
  __device__ __forceinline__ explicit ScaleLoader(const abi::GemmParams&) {}
  __device__ __forceinline__ void find(const TileScheduler<Config>&) {}
  __device__ __forceinline__ void load(int) {}
};

// A consumer's thread. `add` gets a part of the sums of a block of 64 rows, from the `first` on.
// Where blocks have no scales:
template <class Config, class Layout, Scaling = Config::kScaling>
struct BlockScaler {
  static constexpr int kTurns = 1;
  __device__ __forceinline__ explicit BlockScaler(const abi::GemmParams&, int) {}
  __device__ __forceinline__ void begin(const TileScheduler<Config>&, int) {}
  template <int kTurn>
  __device__ __forceinline__ void take(int) {}
  __device__ __forceinline__ void pass() {}
  template <int kCount, int kPart, int kAll>
  __device__ __forceinline__ void add(int, int first, const float (&part)[kPart],
                                      float (&sums)[kAll]) {
#pragma unroll
    for (int i = 0; i < kCount; ++i) sums[first + i] += part[i];
  }
};

// Its rows in the slot of a step.
template <class Config, class Layout>
class ScalesOfThread {
  using Ring = ScaleRing<Config>;

 public:
  __device__ __forceinline__ explicit ScalesOfThread(int group)
      : first_row_((Config::Consumers::kCooperative ? group * kRowsOfConsumer<Config> : 0) +
                   (threadIdx.x >> 5 & 3) * kWarpRows + ((threadIdx.x & 31) >> 2)) {}

  __device__ __forceinline__ void wait() const {
    Layout::scales_there(number_).wait(Ring::phase(number_));
    keep_order();
  }
  // Over a step of which nothing is multiplied.
  __device__ __forceinline__ void pass() {
    wait();
    go_on();
  }
  // Of the i-th block of 64 rows: of a row and the one 8 below.
  __device__ __forceinline__ const float* rows(int i) const {
    return Layout::scales(number_) + first_row_ + i * kBlockRows;
  }
  __device__ __forceinline__ const float* columns() const {
    return Layout::scales(number_) + Ring::kRows;
  }
  // To the next step: this warp has read those of the slot.
  __device__ __forceinline__ void go_on() {
    keep_order();
    __syncwarp();
    if ((threadIdx.x & 31) == 0) Layout::scales_read(number_).arrive();
    ++number_;
  }

 private:
  int first_row_;
  uint32_t number_ = 0;  // of the step, among those of the CTA
};

// One of B for all columns of a product. A lane has the factor of a row, of the 16 of its warp in
// either block of 64; those of a step are read when the step two before it is multiplied.
template <class Config, class Layout>
class BlockScaler<Config, Layout, Scaling::by_tile> {
  static constexpr int kRuns = Config::kGates == Gates::halves ? 2 : 1;  // of columns
  static constexpr int kColumnsOfB = Config::kGates == Gates::by_turns ? 2 : 1;

 public:
  static constexpr int kTurns = 2;  // of steps, which are read to registers of their own

  __device__ __forceinline__ BlockScaler(const abi::GemmParams& p, int group)
      : params_(p),
        row_((Config::Consumers::kCooperative ? group * kRowsOfConsumer<Config> : 0) +
             (kRowsOfConsumer<Config> > kBlockRows ? (threadIdx.x >> 4 & 1) * kBlockRows : 0) +
             (threadIdx.x >> 5 & 3) * kWarpRows + (threadIdx.x & 15)) {}

  // To a tile, before its first step, which multiplies that block of K. Rows that are not there
  // have the scales of the last one: nothing is stored of them.
  __device__ __forceinline__ void begin(const TileScheduler<Config>& tile, int block) {
    params_.find(tile);
    const int row = min(tile.m + row_, p().m - 1);
    // Any column of the tile: what all threads read at one address would go to a uniform register,
    // which waits for it at once.
    const int column =
        min(tile.n * kColumnsOfB + static_cast<int>(threadIdx.x & 3), p().n * kColumnsOfB - 1);
    of_row_ = block_of_scales(p().a_scales, block, tile.batch) + row_of_scales(p().a_scales, row);
#pragma unroll
    for (int run = 0; run < kRuns; ++run) {
      of_columns_[run] = block_of_scales(of_product(run), block, tile.batch) +
                         row_of_scales(of_product(run), column);
    }
    left_ = p().a_scales.blocks - block;
    read<0>();
    read<1>();
  }
  __device__ __forceinline__ void pass() {}

  // Those of the rows-th 64 rows are what `add` multiplies by. Steps take turns.
  template <int kTurn>
  __device__ __forceinline__ void take(int rows) {
    if (rows == 0) {
#pragma unroll
      for (int run = 0; run < kRuns; ++run) {
        of_lane_[run] = row_scales_[kTurn] * column_scales_[kTurn][run];
      }
      read<kTurn>();
    }
    const int lane = rows * 16 + ((threadIdx.x & 31) >> 2);
#pragma unroll
    for (int run = 0; run < kRuns; ++run) {
      factors_[0][run] = __shfl_sync(0xffffffffu, of_lane_[run], lane);
      factors_[1][run] = __shfl_sync(0xffffffffu, of_lane_[run], lane + 8);
    }
  }

  // sums += part * scales, of one block of 64 rows.
  template <int kCount, int kPart, int kAll>
  __device__ __forceinline__ void add(int, int first, const float (&part)[kPart],
                                      float (&sums)[kAll]) {
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
      float& sum = sums[first + i];
      sum = fmaf(part[i], factors_[i / 2 % 2][(first + i) / (kAll / kRuns)], sum);
    }
  }

 private:
  __device__ __forceinline__ const abi::BlockScales& of_product(int run) const {
    return run == 1 ? p().second_b_scales : p().b_scales;
  }
  __device__ __forceinline__ const abi::GemmParams& p() const { return params_.get(); }
  // Those of the next step; zeros behind the last block of K.
  template <int kTurn>
  __device__ __forceinline__ void read() {
    const bool exists = left_ > 0;
    row_scales_[kTurn] = exists ? *of_row_ : 0.0f;
    of_row_ += p().a_scales.block_stride;
#pragma unroll
    for (int run = 0; run < kRuns; ++run) {
      column_scales_[kTurn][run] = exists ? *of_columns_[run] : 0.0f;
      of_columns_[run] += of_product(run).block_stride;
    }
    --left_;
  }

  ParamsOfTile<Config> params_;
  const int row_;  // of the tile, this lane's
  const float *of_row_, *of_columns_[kRuns];
  int left_;  // blocks of K that are still to be read
  float row_scales_[kTurns], column_scales_[kTurns][kRuns];
  float of_lane_[kRuns], factors_[2][kRuns];
};

// One for each column. As many of them as there are registers for are read while the tensor cores
// work, and kept for all rows.
template <class Config, class Layout>
class BlockScaler<Config, Layout, Scaling::by_column> {
  static constexpr int kBlocks = kRowsOfConsumer<Config> / kBlockRows;
  static constexpr int kSums = Config::kTileN / 2;  // of a block of 64 rows
  static constexpr int kOfPart = kSums / Config::kColumnParts;
  static constexpr int kQuads = kSums / 8;  // of columns, that a thread has
  static constexpr int kOfSteps = kMultipliesAhead<Config> ? 2 : 1;
  static constexpr int kRoom = (kRegistersForSums - kBlocks * kSums - kOfSteps * kOfPart) / 4;
  static constexpr int kKept = kRoom < 0 ? 0 : kRoom < kQuads ? kRoom : kQuads;

 public:
  static constexpr int kTurns = 1;

  __device__ __forceinline__ BlockScaler(const abi::GemmParams&, int group) : scales_(group) {}

  __device__ __forceinline__ void begin(const TileScheduler<Config>&, int) {}
  __device__ __forceinline__ void pass() { scales_.pass(); }
  template <int kTurn>
  __device__ __forceinline__ void take(int rows) {
    if (rows == 0) {
      scales_.wait();
#pragma unroll
      for (int i = 0; i < kKept; ++i) kept_[i] = columns()[i * 4];
    }
    rows_[0] = scales_.rows(rows)[0];
    rows_[1] = scales_.rows(rows)[8];
  }

  template <int kCount, int kPart, int kAll>
  __device__ __forceinline__ void add(int rows, int first, const float (&part)[kPart],
                                      float (&sums)[kAll]) {
#pragma unroll
    for (int i = 0; i < kPart / 8; ++i) {
      const int quad = first / 8 + i;
      const float4 columns = quad < kKept ? kept_[quad] : this->columns()[quad * 4];
      add_four(columns.x, columns.y, part + i * 8, sums + first + i * 8);
      add_four(columns.z, columns.w, part + i * 8 + 4, sums + first + i * 8 + 4);
    }
    if (rows == kBlocks - 1 && first + kPart == kAll) scales_.go_on();
  }

 private:
  // The thread's, four of each 16 (ScaleLoader::place).
  __device__ __forceinline__ const float4* columns() const {
    return reinterpret_cast<const float4*>(scales_.columns()) + (threadIdx.x & 3);
  }
  // Two columns of both rows.
  __device__ __forceinline__ void add_four(float left, float right, const float* part,
                                           float* sums) const {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      sums[i] = fmaf(part[i], rows_[i / 2] * (i % 2 == 0 ? left : right), sums[i]);
    }
  }

  ScalesOfThread<Config, Layout> scales_;
  float rows_[2];
  float4 kept_[kKept + 1];
};

}  // namespace epifuse::sm90
