// The producer: one thread keeps the ring of stages full by TMA, tile after tile. The CTAs of a
// cluster load a part each of what they share and multicast it.
#pragma once

#include "kernels/sm90/loads.cuh"
#include "kernels/sm90/start.cuh"

namespace epifuse::sm90 {

// Loads a CTA's part of an operand's tile, one of kParts, into the CTAs that `mask` names, or if
// not kMulticast into itself. `first` is the tile's first row of M or N.
template <class Config, bool kIsKMajor, int kTile, int kParts, bool kMulticast = (kParts > 1)>
__device__ __forceinline__ void load_operand(const abi::TensorMap& map, FullBarrier& barrier,
                                             unsigned char* stage, int first, int k, Batch batch,
                                             int part, uint16_t mask, Keep keep = Keep::usual) {
  const auto load = [&](unsigned char* shared, int row, int col) {
    if constexpr (!kMulticast) {
      load_box<Config::Scheduler::kBatched>(map, barrier, shared, row, col, batch, keep);
    } else {
      load_box<Config::Scheduler::kBatched>(map, barrier, shared, row, col, batch, mask);
    }
  };
  if constexpr (kIsKMajor) {
    constexpr int kRows = kTile / kParts;
    load(stage + part * kRows * 128, first + part * kRows, k);
  } else {
    constexpr int kBlocks = kTile / 64 / kParts;
    static_assert(kBlocks * 64 * kParts == kTile, "every CTA loads whole blocks");
#pragma unroll
    for (int block = part * kBlocks; block < (part + 1) * kBlocks; ++block) {
      load(stage + block * kBlockBytes, k, first + block * 64);
    }
  }
}

// The tile of B from column n of the result on; of two products side by side one half each, and
// where two CTAs share it they load one product each.
template <class Config>
__device__ __forceinline__ void load_b(const abi::GemmParams& p, FullBarrier& barrier,
                                       unsigned char* stage, int n, int k, Batch batch, int rank,
                                       uint16_t mask, bool narrow_box) {
  constexpr int kParts = Config::Producer::kClusterM;
  constexpr bool kIsKMajor = Config::Producer::kBIsKMajor;
  const Batch b_batch = batch_of(p, 1, batch);
  // With one row of tiles each box is read once.
  const Keep keep = p.m <= Config::kTileM ? Keep::briefly : Keep::usual;
  if constexpr (Config::kGates == Gates::halves) {
    static_assert(kParts <= 2);
    constexpr int kHalf = Config::kTileN / 2;
    if (kParts == 1 || rank == 0) {
      load_operand<Config, kIsKMajor, kHalf, 1, (kParts > 1)>(p.b, barrier, stage, n, k, b_batch, 0,
                                                              mask, keep);
    }
    if (kParts == 1 || rank == 1) {
      load_operand<Config, kIsKMajor, kHalf, 1, (kParts > 1)>(
          p.second_b, barrier, stage + kHalf * 128, n, k, batch_of(p, abi::kSecondB, batch), 0,
          mask, keep);
    }
  } else {
    load_operand<Config, kIsKMajor, Config::kTileN, kParts>(
        narrow_box && rank == kParts - 1 ? p.fewer_rows : p.b, barrier, stage,
        n * kProducts<Config>, k, b_batch, rank, mask, keep);
  }
}

// Of short tiles, where all rows of a tile are one box otherwise.
template <class Config>
constexpr bool kHasShortBoxes =
    kHasShortTiles<Config>&& Config::Producer::kAIsKMajor && !Config::Producer::kGathersA;

// Of a problem that the producer comes to.
template <class Config>
__device__ __forceinline__ void acquire_operands(const abi::GemmParams& p) {
  acquire(p.a);
  acquire(p.b);
  if constexpr (Config::kGates == Gates::halves) acquire(p.second_b);
}

template <class Config>
__device__ __forceinline__ void prefetch_operands(const abi::GemmParams& p) {
  if constexpr (!Config::Producer::kGathersA) prefetch(p.a);
  prefetch(p.b);
  if constexpr (Config::Scheduler::kTwoWidths || kHasShortBoxes<Config>) prefetch(p.fewer_rows);
  if constexpr (Config::kGates == Gates::halves) prefetch(p.second_b);
}

// A warp, of which one thread does the work.
template <class Config, class Epilogue>
__device__ __forceinline__ void produce(const abi::GemmParams& all) {
  using Producer = typename Config::Producer;
  using Scheduler = typename Config::Scheduler;
  using Layout = SharedLayout<Config, Epilogue>;
  constexpr int kM = Producer::kClusterM, kN = Producer::kClusterN;
  const int rank = Config::Consumers::kSplitK > 1 ? 0 : cluster_rank<Config>();
  const int rank_m = rank % kM, rank_n = rank / kM;
  const auto a_mask = static_cast<uint16_t>(((1 << kM * kN) - 1) / ((1 << kM) - 1) << rank_m);
  const auto b_mask = static_cast<uint16_t>(((1 << kM) - 1) << kM * rank_n);
  const Steps steps = steps_of<Config>(all);
  constexpr bool kReadsToFindTiles = Scheduler::kGrouped || Scheduler::kStepsVary;
  if (threadIdx.x == 0 && !Scheduler::kOwnParams) prefetch_operands<Config>(all);
  TileScheduler<Config> tiles;
  RingPosition<Config::kStages> ring;
  int tile = tiles.first();
  bool more = !kReadsToFindTiles && tiles.template go<true>(all, tile);
  if constexpr (Scheduler::kSideBySide) {
    if (threadIdx.x == 0 && more) prefetch_operands<Config>(params_of<Config>(all, tiles));
  }
  start<Config>(all);
  if constexpr (Scheduler::kStepsVary) more = tiles.go(all, tile);
  if (threadIdx.x != 0) return;
  int before_underway = Scheduler::kStepsVary ? 1 : min(steps.count, Config::kStages + 1);
  const abi::GemmParams* acquired = nullptr;  // of problems, whose maps are
  TileAnnouncer<Config> announcer(all);
  const auto produce_tile = [&](const abi::GemmParams& p, const Steps& steps) {
    Batch a_batch = batch_of(p, 0, tiles.batch), batch = tiles.batch;
    const bool is_short = kHasShortTiles<Config> && tiles.group.is_short;
#pragma unroll 1
    for (int i = 0; i < steps.count; ++i) {
      int k = p.first_k + (steps.first + i) * Config::kTileK;
      if constexpr (Scheduler::kKGrouped) {
        const BoxOfK box = box_of<Config::kTileK>(tiles.part, i);
        k = box.row;
        batch = box.window;
        a_batch = batch_of(p, 0, batch);
      }
      Layout::empty(ring.stage).wait(ring.phase ^ 1);
      FullBarrier& barrier = Layout::full(ring.stage);
      const bool narrow_box = Scheduler::kTwoWidths && Producer::kBIsKMajor && tiles.is_narrow;
      const int a_bytes = is_short ? min(p.a_bytes, kBlockBytes) : p.a_bytes;
      barrier.arrive_and_expect_tx((Producer::kGathersA ? 0 : a_bytes) + Layout::kBBytes -
                                   (narrow_box ? 8 * 128 : 0));
      if (!Producer::kGathersA && is_short) {
        load_operand<Config, Producer::kAIsKMajor, kBlockRows, 1>(
            kHasShortBoxes<Config> ? p.fewer_rows : p.a, barrier, Layout::a(ring.stage), tiles.m, k,
            a_batch, 0, a_mask);
      } else if constexpr (!Producer::kGathersA) {
        load_operand<Config, Producer::kAIsKMajor, Config::kTileM, kN>(
            p.a, barrier, Layout::a(ring.stage), tiles.m, k, a_batch, rank_n, a_mask);
      }
      load_b<Config>(p, barrier, Layout::b(ring.stage), tiles.n, k, batch, rank_m, b_mask,
                     narrow_box);
      ring.next();
      if (Layout::kLoadsWait && --before_underway == 0) Layout::underway().arrive();
      if constexpr (Scheduler::kGrouped) announcer.announce_more();
    }
    if constexpr (Config::Staging::kLoadsInRing) {
#pragma unroll 1
      for (int s = 0; s < RingLoads<Layout>::kSteps; ++s) {
        Layout::empty(ring.stage).wait(ring.phase ^ 1);
        RingLoads<Layout>::template load<Epilogue>(p, tiles, ring.stage, s);
        ring.next();
      }
    }
  };
  if constexpr (Scheduler::kGrouped) {
#pragma unroll 1
    for (; announcer.tile().exists; announcer.go_on()) {
      set_tile(tiles, announcer.tile());
      produce_tile(all, steps);
    }
    announcer.announce_end();
  } else {
#pragma unroll 1
    for (; more; more = tiles.go(all, tile += tiles.step())) {
      if constexpr (Scheduler::kPointerArrays) {
        const abi::GemmParams& p = *tiles.problem.params;
        if (acquired != &p) acquire_operands<Config>(p);
        acquired = &p;
        produce_tile(p, steps_of<Config>(p));
      } else if constexpr (Scheduler::kKGrouped) {
        produce_tile(all, steps_of<Config>(all, tiles));
      } else if constexpr (Scheduler::kSideBySide) {
        produce_tile(params_of<Config>(all, tiles), steps);
      } else {
        produce_tile(all, steps);
      }
    }
  }
  if constexpr (kM * kN > 1) {  // peers may still arrive on our barriers
#pragma unroll 1
    for (int i = 0; i < Config::kStages; ++i) {
      Layout::empty(ring.stage).wait(ring.phase ^ 1);
      ring.next();
    }
  }
}

}  // namespace epifuse::sm90
