// Which tiles a CTA computes, one after another.
#pragma once

#include "kernels/sm80/tile.cuh"

namespace epifuse::sm80 {

template <class Config>
constexpr int kStepK = Config::kStepBytes / kElementBytesA<Config>;

// Steps of K; a persistent kernel has one of zeros where K is empty.
template <class Config>
__device__ __forceinline__ int steps_of(int k) {
  const int steps = (k + kStepK<Config> - 1) / kStepK<Config>;
  return Config::kPersistent ? max(steps, 1) : steps;
}

// What tiles are of, which are asked for in order: one product, ..
template <class Config, bool kPointerArrays>
class Products {
 public:
  using Params = abi::CopiedGemmParams;
  __device__ __forceinline__ explicit Products(const Params& p) : p_(p) {}

  // False behind the last tile.
  __device__ __forceinline__ bool find(int i, Tile& tile) {
    return find_tile<Config>(p_.gemm, i, tile);
  }
  // Of the product of the tile that was found.
  __device__ __forceinline__ const abi::CopiedGemmParams& params() const { return p_; }

 private:
  const Params& p_;
};
// .. or many problems, the tiles of one behind those of the other:
// kernels/common/pointer_arrays.cuh has described them in memory.
template <class Config>
class Products<Config, true> {
 public:
  using Params = abi::ProblemList;
  __device__ __forceinline__ explicit Products(const Params& all) : all_(all) {}

  __device__ __forceinline__ bool find(int i, Tile& tile) {
    while (i >= next_tile_) {
      if (++problem_ >= all_.count) return false;
      first_tile_ = next_tile_;
      next_tile_ += all_.tiles[problem_].tiles;
    }
    return find_tile<Config>(params().gemm, i - first_tile_, tile);
  }
  __device__ __forceinline__ const abi::CopiedGemmParams& params() const {
    return all_.problems[problem_].product;
  }

 private:
  const Params& all_;
  int problem_ = -1;
  int first_tile_ = 0, next_tile_ = 0;  // of the problem, and of those behind it
};

// Tiles that are as far apart as the grid has CTAs.
template <class Config>
class TileScheduler {
  using All = Products<Config, Config::kPointerArrays>;
  static_assert(Config::kPersistent || !Config::kPointerArrays);

 public:
  using Params = typename All::Params;
  __device__ __forceinline__ explicit TileScheduler(const Params& p)
      : TileScheduler(p, static_cast<int>(blockIdx.x)) {}
  __device__ __forceinline__ TileScheduler(const Params& p, int first) : all_(p), next_(first) {}

  // On to the first tile, then to the next one; false behind the last one.
  __device__ __forceinline__ bool next() {
    const int i = next_;
    next_ += static_cast<int>(gridDim.x);
    tile_ = Tile();
    const bool exists = all_.find(i, tile_);
    if constexpr (Config::kKGrouped) {
      if (exists) {
        const PartOfK part = part_of_k(params().gemm, tile_.batch.inner);
        tile_.first_k = part.first;
        k_ = part.count;
      }
    }
    return exists;
  }

  __device__ __forceinline__ const abi::CopiedGemmParams& params() const { return all_.params(); }
  __device__ __forceinline__ const Tile& tile() const { return tile_; }
  // Of the tile's sums.
  __device__ __forceinline__ int k() const { return Config::kKGrouped ? k_ : params().gemm.k; }
  __device__ __forceinline__ int steps() const { return steps_of<Config>(k()); }

 private:
  All all_;
  int next_;
  int k_ = 0;  // where groups cut it
  Tile tile_;
};

}  // namespace epifuse::sm80
