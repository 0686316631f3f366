// What a CTA and a thread of the kernel for few rows have to do.
#pragma once

#include "kernels/abi.h"
#include "kernels/common/operands.cuh"
#include "kernels/sm90/few_rows_primitives.cuh"

namespace epifuse::sm90 {

constexpr int kRowsOfBlock = 8;  // of an instruction's result

// How a thread reads its elements of A: in whole vectors; in vectors that hold them at any place,
// where both operands lie along K; or one by one, in any layout.
enum class LoadsOfA { vectors, shifted, elements };

template <class Config>
constexpr int kBytesOfB = sizeof(typename Config::OperandB::Storage);
template <class Config>
constexpr bool kWidensB = kBytesOfB<Config> == 1;

// Config (generated): Operand, the element type of A, and OperandB, that of B, which is the same or
// of 8 bits and then widened; kProducts, 2 where gated; kBIsKMajor; kBIsShifted, where rows of B in
// memory start off 16-byte boundaries; kLoadsOfA; kIsBatched; kRows and kColumns of a CTA's tile;
// kWarps, which share K; kSplitK, the CTAs of a cluster that share K; kDepth, the steps that are
// loaded ahead.
template <class Config>
struct FewRowsTile {
  // Gates whose weights run along K share instructions: 8 columns of each product in one.
  static constexpr bool kJoined = Config::kBIsKMajor && Config::kProducts > 1;
  static constexpr int kOperands = kJoined ? 1 : Config::kProducts;
  static constexpr int kColumnsOfBlock = kJoined ? 8 : 16;
  static constexpr int kBlocks = Config::kColumns / kColumnsOfBlock;  // side by side
  static constexpr int kRowBlocks = Config::kRows / kRowsOfBlock;
  // Where B runs along N: blocks of which a thread reads columns side by side, two of each.
  static constexpr int kSideBySide = Config::kColumns % 64 == 0 ? 4 : 2;
  static constexpr int kGroups = kBlocks / kSideBySide;
  static constexpr int kColumnsOfGroup = 16 * kSideBySide, kColumnsOfThread = 2 * kSideBySide;
  // Of K, of a warp's step: a thread multiplies 64 bytes of B for each block, 32 where they are
  // widened, or where B runs along N 8 rows of 8 columns of each group, or of 4, half a vector.
  static constexpr int kStep = Config::kBIsKMajor ? 64 : 32;
  static constexpr int kVectors =
      Config::kBIsKMajor ? (kWidensB<Config> ? 2 : 4) * kBlocks : 8 * kGroups;
  // Between columns of a tile. Rows of B along K that are 8 apart begin at one place of a vector,
  // wherever that is: so a tile of shifted ones reads them in whole vectors.
  static constexpr int kColumnStep = Config::kBIsKMajor && Config::kBIsShifted ? 8 : 1;
  static constexpr bool kReadsHalves = !Config::kBIsKMajor && kSideBySide == 2;
  // Where B runs along N, those that hold one of B.
  static constexpr int kLoadsOfVector = Config::kBIsShifted && !kReadsHalves ? 2 : 1;
  static constexpr int kElements = Config::kBIsKMajor ? 16 : 8;  // of a row of A, of a thread
  static_assert(Config::kColumns % (Config::kBIsKMajor ? kColumnsOfBlock : kColumnsOfGroup) == 0);
  static_assert(Config::kRows % kRowsOfBlock == 0);
  static_assert(!Config::kBIsShifted || Config::kProducts == 1);
  static_assert(Config::kLoadsOfA != LoadsOfA::shifted || Config::kBIsKMajor);
  static_assert(!kWidensB<Config> || (Config::kBIsKMajor && !Config::kBIsShifted &&
                                      Config::kLoadsOfA == LoadsOfA::vectors));

  // As instructions take it. Where B runs along N the second half of A is in `a[..][0].zw`.
  struct Step {
    uint4 b[kOperands][kVectors];
    uint4 a[kRowBlocks][2];
  };
  // As memory gives it where B runs along N. Of A one of both.
  struct Loaded {
    uint4 b[kOperands][kVectors * kLoadsOfVector];
    uint4 a[kRowBlocks];
    unsigned short elements[kRowBlocks][kElements];
  };
  using Sums = float[kOperands][kRowBlocks][kBlocks][4];
};

// Both operands lie along K in whole vectors, as those of most layers do.
template <class Config>
constexpr bool takes_vectors() {
  return Config::kBIsKMajor && !Config::kBIsShifted && Config::kLoadsOfA == LoadsOfA::vectors;
}

// Of K, what is read in vectors all of whose 16 bytes lie before the end of a matrix. What they
// leave is added element by element (sum_of_last_k).
template <class Config>
__device__ __forceinline__ int k_in_vectors(const abi::FewRowsParams& p) {
  constexpr int kVector = 16 / kBytesOfB<Config>;
  if constexpr (takes_vectors<Config>()) return p.k / kVector * kVector;
  if constexpr (Config::kBIsKMajor) return p.k;
  const bool ends_whole = !Config::kBIsShifted && p.n % FewRowsTile<Config>::kColumnsOfThread == 0;
  return (ends_whole ? p.k : p.k - 1) / 4 * 4;
}

// A CTA's tile: its first row and column, and its product of the batch.
template <class Config>
struct FewRowsPlace {
  static constexpr int kStep = FewRowsTile<Config>::kColumnStep;
  int row = 0, column = 0, outer = 0, inner = 0;

  // Tiles of the same columns run side by side, so that memory gives B once. Most launches have
  // one row of tiles, which takes no divisions.
  __device__ __forceinline__ FewRowsPlace(const abi::FewRowsParams& p, int tile) {
    if (Config::kIsBatched || p.m > Config::kRows) [[unlikely]] {
      constexpr int kSpan = Config::kColumns * kStep;
      const int columns = (p.n + kSpan - 1) / kSpan * kStep;
      const int rows = (p.m + Config::kRows - 1) / Config::kRows;
      const int product = Config::kIsBatched ? tile / (rows * columns) : 0;
      tile -= product * (rows * columns);
      row = tile % rows * Config::kRows;
      tile /= rows;
      if constexpr (Config::kIsBatched) {
        outer = product / p.batch_inner;
        inner = product % p.batch_inner;
      }
    }
    column = tile / kStep * (Config::kColumns * kStep) + tile % kStep;
  }

  __device__ __forceinline__ int column_at(int of_tile) const { return column + of_tile * kStep; }
  // That the tile has of the product.
  __device__ __forceinline__ int columns_of(const abi::FewRowsParams& p) const {
    return (p.n - column + kStep - 1) / kStep;
  }

  // Elements between a tensor's first product and this one.
  __device__ __forceinline__ long long offset(const abi::BatchStrides& batch) const {
    return Config::kIsBatched ? outer * batch.outer + inner * batch.inner : 0;
  }
};

}  // namespace epifuse::sm90
