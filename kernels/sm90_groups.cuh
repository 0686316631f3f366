// Groups of rows, each with a matrix B of its own: where they end is known on the device alone.
//
// Every CTA reads the ends into its shared memory, behind all else. A tile has rows of one group; a
// walk only goes forward, so it finds the group of a tile from that of the tile before.
#pragma once

#include "kernels/sm90_primitives.cuh"

namespace epifuse::sm90 {

constexpr int kGroupBytes = abi::kMaxGroups * 4;

template <class Config>
__device__ __forceinline__ int* group_ends() {
  return reinterpret_cast<int*>(shared_memory() + Config::kSharedBytes - kGroupBytes);
}

// The group of the tile that a walk is at.
template <class Config>
struct GroupWalk {
  int group = 0;
  int first_row = 0, row_end = 0;
  int first_tile = 0;  // its number

  // Goes on to the group of a tile; false behind the last one.
  __device__ __forceinline__ bool find(const abi::GemmParams& p, int tile, int rows_of_tile,
                                       int columns_of_tiles) {
    for (; group < p.groups.num_rows; ++group) {
      const int* ends = group_ends<Config>();
      first_row = Config::kPaddedGroups || group == 0 ? 0 : ends[group - 1];
      row_end = max(ends[group], first_row);
      const int next = first_tile + tiles(rows_of_tile) * columns_of_tiles;
      if (tile < next) return true;
      first_tile = next;
    }
    return false;
  }
  // Along m.
  __device__ __forceinline__ int tiles(int rows_of_tile) const {
    return (row_end - first_row + rows_of_tile - 1) / rows_of_tile;
  }
};

}  // namespace epifuse::sm90
