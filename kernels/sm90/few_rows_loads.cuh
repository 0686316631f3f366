// How a warp of the kernel for few rows reads its operands: straight from memory into registers, in
// the order in which mma.sync takes them.
#pragma once

#include "kernels/abi.h"
#include "kernels/common/operands.cuh"
#include "kernels/sm90/few_rows_primitives.cuh"

namespace epifuse::sm90 {

constexpr int kRowsOfBlock = 8;  // of an instruction's result

// Config (generated): Operand, the element type of A and B; kProducts, 2 where gated; kBIsKMajor;
// kRows and kColumns of a CTA's tile; kWarps, which share K; kSplitK, the CTAs of a cluster that
// share K; kDepth, the steps that are loaded ahead.
template <class Config>
struct FewRowsTile {
  // Gates whose weights run along K share instructions: 8 columns of each product in one.
  static constexpr bool kJoined = Config::kBIsKMajor && Config::kProducts > 1;
  static constexpr int kOperands = kJoined ? 1 : Config::kProducts;
  static constexpr int kColumnsOfBlock = kJoined ? 8 : 16;
  static constexpr int kBlocks = Config::kColumns / kColumnsOfBlock;  // side by side
  static constexpr int kRowBlocks = Config::kRows / kRowsOfBlock;
  // Of K, of a warp's step: a thread loads 64 bytes of B for each block, or where B runs along N 8
  // rows of 8 columns for each 4 blocks.
  static constexpr int kStep = Config::kBIsKMajor ? 64 : 32;
  static constexpr int kLoads = Config::kBIsKMajor ? 4 * kBlocks : 8 * (kBlocks / 4);
  static_assert(Config::kColumns % (Config::kBIsKMajor ? kColumnsOfBlock : 64) == 0);
  static_assert(Config::kRows % kRowsOfBlock == 0);

  struct Step {
    uint4 b[kOperands][kLoads];
    uint4 a[kRowBlocks][2];
  };
  using Sums = float[kOperands][kRowBlocks][kBlocks][4];
};

// A CTA's tile: its first row and column, and its product of the batch.
template <class Config>
struct FewRowsPlace {
  int row = 0, column = 0, outer = 0, inner = 0;

  // Most launches have one row of tiles, which takes no divisions.
  __device__ __forceinline__ FewRowsPlace(const abi::FewRowsParams& p, int tile) {
    const int columns = (p.n + Config::kColumns - 1) / Config::kColumns;
    if (tile >= columns) {
      const int rows = (p.m + Config::kRows - 1) / Config::kRows;
      const int row_of_all = tile / columns, product = row_of_all / rows;
      row = row_of_all % rows * Config::kRows;
      outer = product / p.batch_inner;
      inner = product % p.batch_inner;
      tile -= row_of_all * columns;
    }
    column = tile * Config::kColumns;
  }
};

// Of K, what is loaded in vectors. What ends between two is added element by element
// (sum_of_last_k): a vector there might reach past the end of an allocation.
template <class Config>
__device__ __forceinline__ int k_in_vectors(const abi::FewRowsParams& p) {
  if constexpr (Config::kBIsKMajor) return p.k / 8 * 8;
  return (p.n % 8 == 0 ? p.k : p.k - 1) / 4 * 4;
}

// What lies past K is zero. What lies past the last column is another column, whose sums are
// dropped. Rows start at 16-byte boundaries.
template <class Config>
class FewRowsLoads {
  using Tile = FewRowsTile<Config>;
  using Step = typename Tile::Step;
  using Storage = typename Config::Operand::Storage;

 public:
  __device__ __forceinline__ FewRowsLoads(const abi::FewRowsParams& p,
                                          const FewRowsPlace<Config>& place)
      : k_(k_in_vectors<Config>(p)), lane_(static_cast<int>(threadIdx.x) & 31) {
    const auto of_batch = [&](const abi::Matrix& x) {
      return static_cast<const Storage*>(x.data) + place.outer * x.batch.outer +
             place.inner * x.batch.inner;
    };
#pragma unroll
    for (int block = 0; block < Tile::kRowBlocks; ++block) {
      const int at = place.row + block * kRowsOfBlock + lane_ / 4;
      has_row_[block] = at < p.m;
      a_[block] = of_batch(p.a) + (has_row_[block] ? at : 0) * p.a.row_stride;
    }
#pragma unroll
    for (int product = 0; product < Config::kProducts; ++product) {
      const abi::Matrix& b = product == 0 ? p.b : p.second_b;
      b_[product] = of_batch(b);
      stride_[product] = Config::kBIsKMajor ? b.row_stride : b.col_stride;
    }
#pragma unroll
    for (int i = 0; i < kOffsets; ++i)
      columns_[i] = min(place.column + offset(i), last_column(p.n));
  }

  __device__ __forceinline__ void load(int k, Step& step) const {
    if constexpr (Config::kBIsKMajor) {
      load_k_major(k, step);
    } else {
      load_n_major(k, step);
    }
  }

 private:
  // Columns of B that a thread reads: rows of each block's instructions, or 8 side by side.
  static constexpr int kOffsets = !Config::kBIsKMajor ? Tile::kBlocks / 4
                                  : Tile::kJoined     ? Tile::kBlocks
                                                      : 2 * Tile::kBlocks;
  __device__ __forceinline__ int offset(int i) const {
    return Config::kBIsKMajor ? i * 8 + lane_ / 4 : i * 64 + lane_ / 4 * 8;
  }
  static __device__ __forceinline__ int last_column(int n) {
    return Config::kBIsKMajor ? n - 1 : (n - 1) / 8 * 8;
  }
  // Of K: the first that this thread reads for one half of a step that starts at `k`.
  __device__ __forceinline__ int first_k(int k, int half) const {
    return k + (Config::kBIsKMajor ? half * 32 + lane_ % 4 * 8 : half * 16 + lane_ % 4 * 4);
  }

  static __device__ __forceinline__ uint4& k_major_load(Step& step, int product, int half, int i) {
    if constexpr (Tile::kJoined) return step.b[0][half * 2 * kOffsets + 2 * i + product];
    return step.b[product][half * kOffsets + i];
  }

  __device__ __forceinline__ void load_k_major(int first, Step& step) const {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int k = first_k(first, half);
      const bool has_k = k < k_;
#pragma unroll
      for (int product = 0; product < Config::kProducts; ++product) {
#pragma unroll
        for (int i = 0; i < kOffsets; ++i) {
          const long long at = columns_[i] * stride_[product] + k;
          k_major_load(step, product, half, i) = load_once(b_[product] + at, has_k);
        }
      }
#pragma unroll
      for (int block = 0; block < Tile::kRowBlocks; ++block) {
        step.a[block][half] = load_16_bytes(a_[block] + k, has_k && has_row_[block]);
      }
    }
  }

  // A thread has four rows of K in each half, one behind the other.
  __device__ __forceinline__ void load_n_major(int first, Step& step) const {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int k = first_k(first, half);
#pragma unroll
      for (int product = 0; product < Config::kProducts; ++product) {
#pragma unroll
        for (int i = 0; i < kOffsets; ++i) {
#pragma unroll
          for (int j = 0; j < 4; ++j) {
            const long long at = (k + j) * stride_[product] + columns_[i];
            step.b[product][(i * 2 + half) * 4 + j] = load_once(b_[product] + at, k + j < k_);
          }
        }
      }
#pragma unroll
      for (int block = 0; block < Tile::kRowBlocks; ++block) {
        const uint2 x = load_8_bytes(a_[block] + k, k < k_ && has_row_[block]);
        (half == 0 ? step.a[block][0].x : step.a[block][0].z) = x.x;
        (half == 0 ? step.a[block][0].y : step.a[block][0].w) = x.y;
      }
    }
  }

  const int k_, lane_;
  const Storage* a_[Tile::kRowBlocks];
  bool has_row_[Tile::kRowBlocks];
  const Storage* b_[Config::kProducts];
  long long stride_[Config::kProducts];
  int columns_[kOffsets];
};

}  // namespace epifuse::sm90
