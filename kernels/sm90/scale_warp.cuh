// The warp beside the producer that copies block scales (kernels/sm90/block_scales.cuh).
#pragma once

#include "kernels/sm90/block_scales.cuh"
#include "kernels/sm90/start.cuh"

namespace epifuse::sm90 {

// Copies those of all of a CTA's tiles.
template <class Config, class Layout>
__device__ __forceinline__ void load_scales(const abi::GemmParams& p) {
  const Steps steps = steps_of<Config>(p);
  start<Config>(p);
  ScaleLoader<Config, Layout> loader(p);
  ConsumerScheduler<Config> tiles;
  bool more = tiles.begin(p, 0);
#pragma unroll 1
  while (more) {
    loader.find(tiles);
#pragma unroll 1
    for (int i = 0; i < steps.count; ++i) loader.load(steps.first + i);
    more = Config::Consumers::kSplitK == 1 && tiles.next(p);
  }
}

}  // namespace epifuse::sm90
