// The tiles of a CTA where groups of rows decide them: the producer's thread alone walks through
// the ends, and announces each tile ahead of time in shared memory; the warps that multiply,
// transfer and gather take them from there.
#pragma once

#include "kernels/sm90/sequence.cuh"

namespace epifuse::sm90 {

// What is read and written stays on its side: CUTLASS's barriers do not say that they order memory.
__device__ __forceinline__ void keep_order() { asm volatile("" : : : "memory"); }

// Where announced tiles are: at the end of shared memory. The i-th of a CTA takes place i %
// kPlaces, once the tile there before has been taken.
template <class Config>
struct TileRing {
  static constexpr int kPlaces = 8;
  static constexpr int kBytes =
      Config::Scheduler::kGrouped ? kPlaces * (2 * 8 + sizeof(AnnouncedTile)) : 0;
  static constexpr int kAnnouncedAt = Config::kSharedBytes - kBytes;  // barriers
  static constexpr int kTakenAt = kAnnouncedAt + kPlaces * 8;
  static constexpr int kTilesAt = kTakenAt + kPlaces * 8;
  static_assert(!Config::Scheduler::kGrouped || kTilesAt % alignof(AnnouncedTile) == 0);

  static __device__ __forceinline__ EmptyBarrier& announced(int i) {
    return reinterpret_cast<EmptyBarrier*>(shared_memory() + kAnnouncedAt)[i % kPlaces];
  }
  static __device__ __forceinline__ EmptyBarrier& taken(int i) {
    return reinterpret_cast<EmptyBarrier*>(shared_memory() + kTakenAt)[i % kPlaces];
  }
  static __device__ __forceinline__ AnnouncedTile& tile(int i) {
    return reinterpret_cast<AnnouncedTile*>(shared_memory() + kTilesAt)[i % kPlaces];
  }
  // Of either's barrier, when it is the i-th tile's turn.
  static __device__ __forceinline__ uint32_t phase(int i) { return i / kPlaces & 1; }
};

// The producer's side: it is at a tile, and has announced some of those that follow.
template <class Config, bool = Config::Scheduler::kGrouped>
class TileAnnouncer {
  using Ring = TileRing<Config>;
  static constexpr int kAhead = 3;

 public:
  __device__ __forceinline__ explicit TileAnnouncer(const abi::GemmParams& p)
      : p_(p), sequence_(p) {
    announce();
  }

  __device__ __forceinline__ AnnouncedTile tile() const { return Ring::tile(number_); }
  // To the next tile.
  __device__ __forceinline__ void go_on() { ++number_; }

  // Announces another tile if it comes soon; to be called at least once before going on.
  __device__ __forceinline__ void announce_more() {
    if (num_announced_ <= number_ + kAhead && !sequence_.is_over()) announce();
  }
  __device__ __forceinline__ void announce_end() {
    while (!sequence_.is_over()) announce();
  }

 private:
  __device__ __forceinline__ void announce() {
    const int i = num_announced_++;
    const AnnouncedTile tile = sequence_.next(p_);
    Ring::taken(i).wait(Ring::phase(i) ^ 1);
    keep_order();
    Ring::tile(i) = tile;
    keep_order();
    Ring::announced(i).arrive();
  }

  const abi::GemmParams& p_;
  TileSequence<Config> sequence_;
  int number_ = 0, num_announced_ = 0;
};

template <class Config>
class TileAnnouncer<Config, false> {
 public:
  __device__ __forceinline__ explicit TileAnnouncer(const abi::GemmParams&) {}
};

template <class Config>
__device__ __forceinline__ void set_tile(TileScheduler<Config>& scheduler,
                                         const AnnouncedTile& tile) {
  scheduler.m = tile.m;
  scheduler.n = tile.n;
  scheduler.batch.inner = scheduler.group.group = tile.group;
  scheduler.group.row_end = tile.row_end;
  scheduler.group.is_short = tile.is_short;
}

// The tiles that a warp takes.
template <class Config>
struct AnnouncedScheduler : TileScheduler<Config> {
  int number = 0;  // of the tile, among those of the CTA

  // False when there is none of that number.
  __device__ __forceinline__ bool take() {
    using Ring = TileRing<Config>;
    Ring::announced(number).wait(Ring::phase(number));
    keep_order();
    AnnouncedTile tile = Ring::tile(number);
    keep_order();
    __syncwarp();
    if ((threadIdx.x & 31) == 0) Ring::taken(number).arrive();
    tile = {same(tile.m),       same(tile.n),      same(tile.group),
            same(tile.row_end), same(tile.exists), same(tile.is_short)};
    set_tile(*this, tile);
    return tile.exists;
  }

 private:
  // For the compiler to see that all lanes have the same (docs/gotchas-groups.md).
  static __device__ __forceinline__ int same(int x) { return __shfl_sync(0xffffffffu, x, 0); }
};

template <class Config>
struct ConsumerScheduler<Config, true> : AnnouncedScheduler<Config> {
  int steps_between = 0;

  __device__ __forceinline__ bool begin(const abi::GemmParams&, int consumer) {
    this->number = Config::Consumers::kCooperative ? 0 : consumer;
    return this->take();
  }
  __device__ __forceinline__ bool next(const abi::GemmParams&) {
    this->number += Config::Consumers::kCooperative ? 1 : 2;
    return this->take();
  }
};

}  // namespace epifuse::sm90
