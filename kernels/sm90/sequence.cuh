// The tiles of a CTA where groups of rows decide them, in the order in which they are announced to
// all of its warps (kernels/sm90/announce.cuh).
#pragma once

#include "kernels/sm90/tile_scheduler.cuh"

namespace epifuse::sm90 {

struct alignas(16) AnnouncedTile {
  int m, n, group, row_end;
  int exists, is_short;
};

// What is announced, in order: each tile, then for either consumer that there are no more.
template <class Config>
class TileSequence {
 public:
  __device__ __forceinline__ explicit TileSequence(const abi::GemmParams& p)
      : place_(scheduler_.first()) {
    exists_ = scheduler_.go(p, place_);
  }

  __device__ __forceinline__ AnnouncedTile next(const abi::GemmParams& p) {
    if (!exists_) {
      ++num_ends_;
      return {};
    }
    const AnnouncedTile tile{scheduler_.m,
                             scheduler_.n,
                             scheduler_.group.group,
                             scheduler_.group.row_end,
                             true,
                             scheduler_.group.is_short};
    exists_ = scheduler_.advance(p, place_);
    return tile;
  }
  __device__ __forceinline__ bool is_over() const { return num_ends_ == 2; }

 private:
  TileScheduler<Config> scheduler_;
  int place_;
  bool exists_;
  int num_ends_ = 0;
};

}  // namespace epifuse::sm90
