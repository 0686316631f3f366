// Groups of rows, each with a matrix B of its own: where they end is known on the device alone.
//
// A tile has rows of one group; a tile scheduler only goes forward, so it finds the group of a tile
// from that of the tile before.
#pragma once

#include "kernels/common/integers.cuh"
#include "kernels/sm90/primitives.cuh"

namespace epifuse::sm90 {

// A short tile is one block of 64 rows, which ping-pong consumers multiply alone: the last rows of
// a group where they fit into it. It takes about half of a tile's time, so a CTA takes two of them,
// side by side, in the place of one tile. Its rows of A are a box of their own: two boxes of 64
// rows a stage in place of one cost whole tiles up to 4 %. The host says whether there are any.
template <class Config>
constexpr bool kHasShortTiles =
    Config::Scheduler::kGrouped && !Config::Consumers::kCooperative &&
    Config::kTileM > kBlockRows&& Config::Producer::kClusterM* Config::Producer::kClusterN == 1;

// The group of the place that a tile scheduler is at. A group's places are its whole tiles, then
// its pairs of short ones.
template <class Config>
struct GroupScheduler {
  int group = -1;
  int first_row = 0, row_end = 0;
  int first_place = 0, next_place = 0;  // of the group, and of those behind it
  bool is_short = false;                // the tile that the tile scheduler is at
  bool is_first_of_pair = false;        // and another one is beside it

  // Goes on to the group of a place; false behind the last one.
  __device__ __forceinline__ bool find(const abi::GemmParams& p, int place, int rows_of_tile,
                                       int columns_of_tiles) {
    while (place >= next_place) {
      if (++group >= p.groups.num_rows) return false;
      first_place = next_place;
      first_row = Config::Scheduler::kPadded ? 0 : row_end;
      // Ends outside of the rows there are must not lead out of memory.
      const long long end = integer_at(p.groups, group);
      row_end = end <= first_row ? first_row : end < p.m ? static_cast<int>(end) : p.m;
      next_place += tiles(p, rows_of_tile) * columns_of_tiles;
      if (has_short(p, rows_of_tile)) next_place += (columns_of_tiles + 1) / 2;
    }
    return group < p.groups.num_rows;
  }
  // Whole ones along m: also those whose last rows are missing.
  __device__ __forceinline__ int tiles(const abi::GemmParams& p, int rows_of_tile) const {
    const int least = kHasShortTiles<Config> ? p.least_rows : 1;
    return (row_end - first_row + rows_of_tile - least) / rows_of_tile;
  }
  __device__ __forceinline__ bool has_short(const abi::GemmParams& p, int rows_of_tile) const {
    return kHasShortTiles<Config> && row_end - first_row > tiles(p, rows_of_tile) * rows_of_tile;
  }
};

}  // namespace epifuse::sm90
