// Groups of rows, each with a matrix B of its own: where they end is known on the device alone.
//
// A tile has rows of one group; a walk only goes forward, so it finds the group of a tile from that
// of the tile before. Ends are read where they are: L1 has them, and shared memory would take a
// stage from the largest configs.
#pragma once

#include "kernels/integers.cuh"
#include "kernels/sm90_primitives.cuh"

namespace epifuse::sm90 {

// The group of the tile that a walk is at.
template <class Config>
struct GroupWalk {
  int group = -1;
  int first_row = 0, row_end = 0;
  int first_tile = 0, next_tile = 0;  // of the group, and of those behind it

  // Goes on to the group of a tile; false behind the last one.
  __device__ __forceinline__ bool find(const abi::GemmParams& p, int tile, int rows_of_tile,
                                       int columns_of_tiles) {
    while (tile >= next_tile) {
      if (++group >= p.groups.num_rows) return false;
      first_tile = next_tile;
      first_row = Config::kPaddedGroups ? 0 : row_end;
      // Ends outside of the rows there are must not lead out of memory.
      const long long end = integer_at(p.groups, group);
      row_end = end <= first_row ? first_row : end < p.m ? static_cast<int>(end) : p.m;
      next_tile += tiles(rows_of_tile) * columns_of_tiles;
    }
    return group < p.groups.num_rows;
  }
  // Along m.
  __device__ __forceinline__ int tiles(int rows_of_tile) const {
    return (row_end - first_row + rows_of_tile - 1) / rows_of_tile;
  }
};

}  // namespace epifuse::sm90
