// Products of one A side by side: each is described by a part of the launch's parameters, and has
// the tiles behind those of the part before.
#pragma once

#include "kernels/abi.h"

namespace epifuse::sm90 {

// The part of the tile that a tile scheduler is at.
struct PartScheduler {
  const abi::GemmParams* params = nullptr;
  int first_tile = 0;

  // Goes to the part of a tile; false behind the last one.
  __device__ __forceinline__ bool find(const abi::GemmParams& all, int tile) {
    const auto& p = reinterpret_cast<const abi::GemmSideBySideParams&>(all);
    if (tile >= p.ends[abi::kMostSideBySide - 1]) return false;
    int part = 0;
    first_tile = 0;
    for (int i = 0; i + 1 < abi::kMostSideBySide; ++i) {
      if (tile >= p.ends[i]) {
        part = i + 1;
        first_tile = p.ends[i];
      }
    }
    params = &p.parts[part];
    return true;
  }
};

}  // namespace epifuse::sm90
