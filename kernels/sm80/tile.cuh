// Which tile of which product a CTA computes.
#pragma once

#include "kernels/common/batch.cuh"
#include "kernels/common/integers.cuh"
#include "kernels/common/reduce.cuh"
#include "kernels/common/sums.cuh"

namespace epifuse::sm80 {

// What is unusual is off; a generated Config overrides it.
struct UsualConfig {
  using ElementB = void;  // of b, where it is not that of a
  static constexpr bool kAIsKMajor = true, kBIsKMajor = true;
  static constexpr int kAlignmentA = 16, kAlignmentB = 16;  // bytes, of all that is copied
  static constexpr bool kIsLean = false;                    // of registers, in copying
  static constexpr bool kAddsIntegers = false;              // of 32 bits; else float32
  static constexpr bool kPromotesSums = false;              // of each instruction, in float32
  static constexpr bool kScalesByWarp = false;              // one of B for all columns of a warp
  static constexpr bool kHasBlockScales = false;            // of K; promotes sums
  static constexpr int kSplitK = 1;  // CTAs that share the K of a tile (kernels/sm80/split.cuh)
  static constexpr bool kPersistent = false;     // a CTA takes one tile after another
  static constexpr bool kPointerArrays = false;  // which are of many problems; persistent
  static constexpr bool kBatched = false;
  static constexpr bool kGated = false;          // two products: warps have columns of both,
  static constexpr bool kAdjacentGates = false;  // or every other column is of the second
  static constexpr bool kGrouped = false;        // each group of rows has a B: an inner batch dim
  static constexpr bool kPaddedGroups = false;   // and so are the rows of A and of the result
  static constexpr bool kKGrouped = false;       // each of the batch sums over a group of K
  static constexpr bool kGathersA = false;       // its rows are looked up
  static constexpr unsigned kNonTmaLoads = 0, kNonTmaStores = 0;  // bit i: element by element
  // Bit i: its rows are looked up, or put where an index says.
  static constexpr unsigned kIndexedCols = 0, kIndexedTiles = 0, kIndexedStores = 0;
  // Of the epilogue's last values, those of rows first (kernels/sm80/reduce.cuh).
  using RowReductions = Reductions<>;
  using ColReductions = Reductions<>;
};

template <class Config, class B>
struct OtherElement {
  using Type = B;
};
template <class Config>
struct OtherElement<Config, void> {
  using Type = typename Config::Element;
};
template <class Config>
using ElementOfB = typename OtherElement<Config, typename Config::ElementB>::Type;
template <class Config>
constexpr int kElementBytesA = sizeof(typename Config::Element::Storage);
template <class Config>
constexpr int kElementBytesB = sizeof(typename ElementOfB<Config>::Storage);
// Whether the elements of b are of 8 bits, and multiplied in the 16 of those of a.
template <class Config>
constexpr bool kWidensB = kElementBytesA<Config> > kElementBytesB<Config>;
// Bytes of K of a stage's rows of b.
template <class Config>
constexpr int kStepBytesB = Config::kStepBytes / kElementBytesA<Config>* kElementBytesB<Config>;

template <class Config>
constexpr int kProducts = Config::kGated ? 2 : 1;
template <class Config>
constexpr int kResultColumns = Config::kTileN / kProducts<Config>;
template <class Config>
constexpr int kThreads = Config::kTileM / Config::kWarpM*(Config::kTileN / Config::kWarpN) * 32;

// Where the epilogue's staging starts in shared memory: in the stages' place, or behind them, where
// the next tile's copies go there during the epilogue.
template <class Config>
constexpr int kStagedAt = Config::kPersistent
                              ? (Config::kTileM* Config::kStepBytes +
                                 Config::kTileN * kStepBytesB<Config>)*Config::kStages
                              : 0;

struct Tile {
  int m = 0, n = 0;  // first row and column of the result
  int row_end = 0;   // of the result, or of the group
  int first_k = 0;   // where its part of K starts
  Batch batch;
};

// The rows of a group: of all, or where padded of its own matrices.
struct GroupRows {
  int first, end;
};
template <class Config>
__device__ __forceinline__ GroupRows rows_of_group(const abi::GemmParams& p, int group) {
  const int end = within(integer_at(p.groups, group), p.m);
  if (Config::kPaddedGroups || group == 0) return {0, end};
  return {within(integer_at(p.groups, group - 1), p.m), end};
}

// A group's part of K.
struct PartOfK {
  int first, count;
};
__device__ __forceinline__ PartOfK part_of_k(const abi::GemmParams& p, int group) {
  const auto within = [&](long long x) { return x < 0 ? 0 : x < p.k ? static_cast<int>(x) : p.k; };
  const int first = group == 0 ? 0 : within(integer_at(p.groups, group - 1));
  const int end = within(integer_at(p.groups, group));
  return {first, end > first ? end - first : 0};
}

// To tile number `i` of so many rows of tiles; p.raster of them go side by side, for reuse in L2.
template <class Config>
__device__ __forceinline__ void place_in_band(const abi::GemmParams& p, int i, int rows,
                                              int columns, Tile& tile) {
  const int band = i / (p.raster * columns), first = band * p.raster;
  const int rows_of_band = min(rows - first, p.raster), at = i - first * columns;
  tile.m += (first + at % rows_of_band) * Config::kTileM;
  tile.n = at / rows_of_band * kResultColumns<Config>;
}

// Tile number `i`; false where there is none, which only grids that are not of all tiles ask.
template <class Config>
__device__ __forceinline__ bool find_tile(const abi::GemmParams& p, int i, Tile& tile) {
  const int columns = (p.n + kResultColumns<Config> - 1) / kResultColumns<Config>;
  if constexpr (Config::kGrouped) {
    for (int group = 0; group < p.groups.num_rows; ++group) {
      const GroupRows at = rows_of_group<Config>(p, group);
      const int rows =
          at.end > at.first ? (at.end - at.first + Config::kTileM - 1) / Config::kTileM : 0;
      if (i < rows * columns) {
        tile.m = at.first;
        tile.row_end = at.end;
        tile.batch.inner = group;
        place_in_band<Config>(p, i, rows, columns, tile);
        return true;
      }
      i -= rows * columns;
    }
    return false;
  } else {
    const int rows = (p.m + Config::kTileM - 1) / Config::kTileM;
    tile.row_end = p.m;
    if (Config::kPersistent && i >= rows * columns * (Config::kBatched ? p.batch : 1)) return false;
    if constexpr (Config::kBatched) {
      const int product = i / (rows * columns);
      i -= product * (rows * columns);
      tile.batch = {product % p.batch_inner, product / p.batch_inner};
    }
    place_in_band<Config>(p, i, rows, columns, tile);
    return true;
  }
}

}  // namespace epifuse::sm80
