// Many problems, each with sizes and tensors of its own: kernels/common/pointer_arrays.cuh has
// described them in memory. A tile scheduler only goes forward, so it finds the problem of a tile
// from that of the tile before.
#pragma once

#include "kernels/abi.h"

namespace epifuse::sm90 {

// The problem of the tile that a tile scheduler is at.
struct ProblemScheduler {
  const abi::GemmParams* params = nullptr;
  int problem = -1;
  int first_tile = 0, next_tile = 0;  // of the problem, and of those behind it

  // Goes on to the problem of a tile; false behind the last one.
  __device__ __forceinline__ bool find(const abi::GemmParams& all, int tile) {
    const auto& problems = reinterpret_cast<const abi::PointerArrayGemmParams&>(all);
    while (tile >= next_tile) {
      if (++problem >= problems.count) return false;
      first_tile = next_tile;
      next_tile += problems.tiles[problem].tiles;
    }
    if (problem >= problems.count) return false;
    params = &problems.problems[problem].product.gemm;
    return true;
  }
};

}  // namespace epifuse::sm90
