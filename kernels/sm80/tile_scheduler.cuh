// Which tiles a CTA computes, one after another.
#pragma once

#include "kernels/sm80/tile.cuh"

namespace epifuse::sm80 {

template <class Config>
constexpr int kStepK = Config::kStepBytes /
                       static_cast<int>(sizeof(typename Config::Element::Storage));

// Steps of K; a persistent kernel has one of zeros where K is empty.
template <class Config>
__device__ __forceinline__ int steps_of(int k) {
  const int steps = (k + kStepK<Config> - 1) / kStepK<Config>;
  return Config::kPersistent ? max(steps, 1) : steps;
}

// Tiles that are as far apart as the grid has CTAs.
template <class Config>
class TileScheduler {
 public:
  __device__ __forceinline__ explicit TileScheduler(const abi::CopiedGemmParams& p)
      : TileScheduler(p, static_cast<int>(blockIdx.x)) {}
  __device__ __forceinline__ TileScheduler(const abi::CopiedGemmParams& p, int first)
      : p_(p), next_(first) {}

  // On to the first tile, then to the next one; false behind the last one.
  __device__ __forceinline__ bool next() {
    const int i = next_;
    next_ += static_cast<int>(gridDim.x);
    tile_ = Tile();
    return find_tile<Config>(p_.gemm, i, tile_);
  }

  __device__ __forceinline__ const abi::CopiedGemmParams& params() const { return p_; }
  __device__ __forceinline__ const Tile& tile() const { return tile_; }
  __device__ __forceinline__ int steps() const { return steps_of<Config>(p_.gemm.k); }

 private:
  const abi::CopiedGemmParams& p_;
  int next_;
  Tile tile_;
};

}  // namespace epifuse::sm80
