// Hopper GEMM with a generated epilogue: D[m, n] = epilogue(sum over k of A[m, k] * B[n, k]), f32
// accumulation; of integers exact, and rounded to f32 before the epilogue.
//
// Persistent and warp-specialised: warpgroup 0 fills a ring of shared-memory stages by TMA, moves
// what the epilogue reads and writes, and block scales of columns; the others multiply.
// Ping-pong: each of two consumers owns whole tiles and they take turns on the tensor cores, so
// that the epilogue of one runs under the mainloop of the other. Cooperative: two or three share a
// tile. Where a cluster splits K it has one tile, of all consumers or of the first alone, and its
// CTAs add up their parts through each other's shared memory, in a fixed order.
//
// Gated: a tile of B holds as many columns of either product; both sums of an element meet in one
// thread, and the epilogue makes one result of them.
//
// Config (generated, over UsualConfig of kernels/sm90/policies.cuh): kTileM, kTileN, kStages,
// kMathColumns, kSharedBytes, Wgmma (the CuTe atom of 64 x kTileN), NarrowWgmma where tiles have
// two widths, and a policy of each kind. Epilogue (generated): see kernels/common/operands.cuh.
#pragma once

#include "kernels/common/integers.cuh"
#include "kernels/sm90/exchange.cuh"
#include "kernels/sm90/gather.cuh"
#include "kernels/sm90/producer.cuh"
#include "kernels/sm90/promote.cuh"
#include "kernels/sm90/registers.cuh"
#include "kernels/sm90/scale_warp.cuh"
#include "kernels/sm90/transfer.cuh"

namespace epifuse::sm90 {

constexpr int kTurnBarrier = 2;      // named barriers 2 and 3: whose turn it is on the tensor cores
constexpr int kPartialsBarrier = 2;  // the consumers are done with the stages

template <class Config, class Epilogue>
class Consumer {
  using Consumers = typename Config::Consumers;
  using Scheduler = typename Config::Scheduler;
  using Layout = SharedLayout<Config, Epilogue>;
  using Warp = WarpEpilogue<Layout, Epilogue>;
  using Loads = RingLoads<Layout>;
  using Scaler = BlockScaler<Config, Layout>;
  using Squares = SquareMaxima<Config, Epilogue>;
  static constexpr int kBlocks = kRowsOfConsumer<Config> / kBlockRows;
  static constexpr int kChunks = kChunksAcross<Config>;  // of a block
  static constexpr int kRowFetches = (kResultColumns<Config> + 127) / 128;
  static constexpr bool kPingPong = !Consumers::kCooperative;
  using Accumulators = typename Exchange<Config>::Accumulators;
  using Sum = typename Exchange<Config>::Sum;
  static constexpr int kAccumulators = Exchange<Config>::kAccumulators;

 public:
  __device__ __forceinline__ Consumer(const abi::GemmParams& p, int group)
      : p_(p),
        group_(group),
        thread_(threadIdx.x & 127),
        warp_(thread_ >> 5),
        lane_(thread_ & 31),
        scaler_(p, group),
        exchange_(group),
        epilogue_(p, group, warp_, lane_),
        transfers_(p, group) {}

  __device__ __forceinline__ void run() {
    if constexpr (Consumers::kSplitK == 1) {
      run_tiles();
    } else {
      group_ < kConsumersOfTile<Config> ? run_split() : start<Config>(p_);
    }
  }

 private:
  __device__ __forceinline__ void run_tiles() {
    int steps = steps_of<Config>(p_).count;
    start<Config>(p_);
    bool more = tiles_.begin(p_, group_);
    if (kPingPong && group_ == 1) {
      ring_.skip(Scheduler::kStepsVary ? tiles_.steps_between : steps);
      NamedBarrier::arrive(256, kTurnBarrier);
    }
    if constexpr (!kManyProducts) epilogue_.load_scalars(p_, {});
    if (more) {
      fetch();
      if (kTransfers && warp_ == 0) transfers_.begin(tiles_);
    }
#pragma unroll 1
    while (more) {
      const Schedule done = tiles_;
      if constexpr (Scheduler::kStepsVary) steps = steps_of<Config>(p_, done).count;
      if constexpr (Scheduler::kKGrouped) steps = same(steps);
      Accumulators acc;
      // Ping-pong: without taking turns, barrier phases alias and the kernel hangs.
      if constexpr (kPingPong) NamedBarrier::sync(256, kTurnBarrier + group_);
      const int last = multiply_tile(acc, steps, done);
      if constexpr (kPingPong) NamedBarrier::arrive(256, kTurnBarrier + (group_ ^ 1));
      // While the last products drain: publish this tile's vectors, find the next tile, fetch its.
      if constexpr (kHasRows && !kPingPong) NamedBarrier::sync(128, group_);
      publish();
      more = tiles_.next(p_);
      if (more) fetch();
      cute::warpgroup_wait<0>();
      fence(acc);
      release(last);
      if constexpr (kPingPong) ring_.skip(Scheduler::kStepsVary ? tiles_.steps_between : steps);
      if constexpr (kHasRows) NamedBarrier::sync(128, group_);
      if constexpr (Config::kAddsIntegers) {
        float sums[kBlocks][kAccumulators];
        to_floats(acc, sums);
        write_tile(sums, done, more);
      } else {
        write_tile(acc, done, more);
      }
    }
    if (kTransfers && warp_ == 0) transfers_.finish();
  }

  // The only tile of a cluster that splits K: partial sums go to shared memory, then every CTA adds
  // up and writes its share of the chunks.
  __device__ __forceinline__ void run_split() {
    const int rank = cluster_rank<Config>();
    start<Config>(p_);
    tiles_.go(p_, tiles_.first());
    if constexpr (!Scheduler::kBatched) {
      epilogue_.load_scalars(params_of<Config>(p_, tiles_), {});
    }
    fetch();
    Accumulators acc;
    multiply_all<typename Config::Wgmma, kAccumulators, kBlocks>(acc, steps_of<Config>(p_).count);
    publish();
    cute::warpgroup_wait<0>();
    fence(acc);
    NamedBarrier::sync(kConsumersOfTile<Config> * 128, kPartialsBarrier);
    exchange_.stash(acc, rank);
    cute::cluster_sync();
    if constexpr (Scheduler::kBatched) epilogue_.load_scalars(p_, tiles_.batch);
#pragma unroll
    for (int i = 0; i < kBlocks * kChunks; ++i) {
      if (i % Consumers::kSplitK != rank) continue;
      float sums[kProducts<Config>][kChunkColumns / 2];
      if constexpr (Config::kAddsIntegers) {
        typename Exchange<Config>::Sums integers;
        exchange_.add_up(acc, i, rank, integers);
        to_floats(integers, sums);
      } else {
        exchange_.add_up(acc, i, rank, sums);
      }
      epilogue_.set_cols(cols_[i / kChunks * 2], cols_[i / kChunks * 2 + 1]);
      epilogue_.read_rows(rows(), i);
      epilogue_.run(i, kBlocks * kChunks, i, sums[0], sums[kProducts<Config> - 1], rows(), nullptr,
                    chunk(i, tiles_));
    }
    cute::cluster_arrive_relaxed();  // others may still read our shared memory
    cute::cluster_wait();
  }

  static constexpr bool kHasRows = Epilogue::Rows::kCount > 0;
  static constexpr bool kManyProducts = Scheduler::kBatched || Scheduler::kOwnParams;
  // Where the producer's other warps move operands, the first warp of each consumer transfers.
  using Schedule = ConsumerScheduler<Config>;
  static constexpr bool kTransfers = Layout::kMovesRows && Layout::kStagedDepth > 0;

  __device__ __forceinline__ Chunk chunk(int i, const TileScheduler<Config>& tile) const {
    Chunk chunk = chunk_of<Config>(tile, group_, i);
    chunk.row += warp_ * kWarpRows;
    return chunk;
  }

  // Row and column values of the tile the tile scheduler is at, as raw bits into registers, and the
  // block scales of its first steps.
  __device__ __forceinline__ void fetch() {
    const abi::GemmParams& p = params_of<Config>(p_, tiles_);
    scaler_.begin(tiles_, steps_of<Config>(p_).first);
    Epilogue::Rows::for_each([&](auto type, int i) {
#pragma unroll
      for (int f = 0; f < kRowFetches; ++f) {
        const int column = tiles_.n + f * 128 + thread_;
        raw_rows_[f][i] =
            column < p.n ? fetch_bits<Config, decltype(type)>(p.rows[i], column, tiles_.batch) : 0u;
      }
    });
    Epilogue::Cols::for_each([&](auto type, int i) {
#pragma unroll
      for (int b = 0; b < kBlocks * 2; ++b) {
        const Chunk first = chunk(b / 2 * kChunks, tiles_);
        int row = first.row + (lane_ >> 2) + b % 2 * 8;
        const bool exists = row < row_end_of<Config>(p_, first);
        if (exists && (Config::kIndexedCols >> i & 1)) {
          row = static_cast<int>(row_to_read(p.rows_of_cols[i], row));
        }
        raw_cols_[b][i] =
            exists ? fetch_bits<Config, decltype(type)>(p.cols[i], row, tiles_.batch) : 0u;
      }
    });
  }

  // Row values to shared memory and column values to their place, for the tile being finished.
  __device__ __forceinline__ void publish() {
    Epilogue::Rows::for_each([&](auto type, int i) {
#pragma unroll
      for (int f = 0; f < kRowFetches; ++f) {
        const int column = f * 128 + thread_;
        constexpr int kColumns = kResultColumns<Config>;
        if (kColumns % 128 == 0 || column < kColumns) {
          rows()[i * kColumns + column] = decode_bits<decltype(type)>(raw_rows_[f][i]);
        }
      }
    });
#pragma unroll
    for (int b = 0; b < kBlocks * 2; ++b) {
#pragma unroll
      for (int i = 0; i < Epilogue::Cols::kCount; ++i) cols_[b][i] = raw_cols_[b][i];
    }
  }

  // The tile's mainloop; returns the stage that the last products still read.
  __device__ __forceinline__ int multiply_tile(Accumulators& acc, int steps, const Schedule& tile) {
    if constexpr (Scheduler::kTwoWidths) {
      if (tile.is_narrow) {
        return multiply_all<typename Config::NarrowWgmma, kAccumulators - 4, kBlocks>(acc, steps);
      }
    }
    if constexpr (kHasShortTiles<Config>) {
      if (tile.group.is_short) {
        return multiply_all<typename Config::Wgmma, kAccumulators, 1>(acc, steps);
      }
    }
    return multiply_all<typename Config::Wgmma, kAccumulators, kBlocks>(acc, steps);
  }

  // Of the first blocks of 64 rows.
  template <class Atom, int kCount, int kMultiplied>
  __device__ __forceinline__ int multiply_all(Accumulators& acc, int steps) {
    if constexpr (Config::kPromotesSums) {
      static_assert(kMultiplied == kBlocks);
      const auto release_stage = [&](int stage) { release(stage); };
      return PromotedSums<Layout, Atom, kCount, decltype(release_stage)>(group_, ring_, scaler_,
                                                                         release_stage)
          .multiply(acc, steps, has_rows());
    } else {
      return multiply_at_once<Atom, kCount, kMultiplied>(acc, steps);
    }
  }
  // Whether this consumer has any row of a tile.
  __device__ __forceinline__ bool has_rows() const {
    if constexpr (Scheduler::kGrouped || Scheduler::kOwnParams) return true;
    const int first = Consumers::kCooperative ? group_ * kRowsOfConsumer<Config> : 0;
    return tiles_.m + first < p_.m;
  }
  template <class Atom, int kCount, int kMultiplied>
  __device__ __forceinline__ int multiply_at_once(Accumulators& acc, int steps) {
    constexpr int kRowsAt = Consumers::kCooperative ? kBlocks * kBlockBytes : 0;
    int previous = -1;
#pragma unroll 1
    for (int k = 0; k < steps; ++k) {
      Layout::full(ring_.stage).wait(ring_.phase);
      if constexpr (Config::Producer::kGathersA) cutlass::arch::fence_view_async_shared();
      fence(acc);
      cute::warpgroup_arrive();
      const uint64_t a = descriptor<Config::Producer::kAIsKMajor>(Layout::a(0)) +
                         ((ring_.stage * Layout::kABytes + group_ * kRowsAt) >> 4);
      const uint64_t b = descriptor<Config::Producer::kBIsKMajor>(Layout::b(0)) +
                         (ring_.stage * Layout::kBBytes >> 4);
#pragma unroll
      for (int j = 0; j < 4; ++j) {
#pragma unroll
        for (int block = 0; block < kMultiplied; ++block) {
          multiply<Atom>(
              a + (block * kBlockBytes >> 4) + j * kDescriptorStep<Config::Producer::kAIsKMajor>,
              b + j * kDescriptorStep<Config::Producer::kBIsKMajor>, acc[block], (k | j) != 0,
              cute::make_index_sequence<kCount>{});
        }
      }
      cute::warpgroup_commit_batch();
      fence(acc);
      cute::warpgroup_wait<1>();
      if (previous >= 0) release(previous);
      previous = ring_.stage;
      ring_.next();
    }
    return previous;
  }

  __device__ __forceinline__ void write_tile(float (&acc)[kBlocks][kAccumulators],
                                             const Schedule& done, bool more) {
    if constexpr (kManyProducts) epilogue_.load_scalars(params_of<Config>(p_, done), done.batch);
    const auto begin_block = [&](int i) {
      if (i % kChunks == 0) epilogue_.set_cols(cols_[i / kChunks * 2], cols_[i / kChunks * 2 + 1]);
    };
    const auto measure = [&](auto i) {
      float* sums = acc[i / kChunks];
      epilogue_.measure(i, sums + Exchange<Config>::start(i, 0),
                        sums + Exchange<Config>::start(i, kProducts<Config> - 1), rows(),
                        chunk(i, done));
    };
    if constexpr (Squares::kExist) {
      squares_.find(Layout::squares(), epilogue_.maxima(), group_, warp_, lane_,
                    [&](int i) { begin_block(i), measure(i); });
    }
    epilogue_.read_rows(rows(), 0);
#pragma unroll
    for (int i = 0; i < kBlocks * kChunks; ++i) {
      begin_block(i);
      const unsigned char* loads = nullptr;
      if constexpr (Config::Staging::kLoadsInRing) {
        if (Loads::is_first(i)) Layout::full(ring_.stage).wait(ring_.phase);
        loads = Loads::place(ring_.stage, group_, i);
      }
      if (kHasShortTiles<Config> && done.group.is_short && i >= kChunks) {
        epilogue_.pass(i);
        if (kTransfers && warp_ == 0) transfers_.pass_on(i, done, tiles_, more);
        continue;
      }
      float* sums = acc[i / kChunks];
      const bool begins = i % (kBlockColumns / kChunkColumns) == 0;
      if constexpr (Squares::kExist) {
        if (begins) squares_.put(Layout::squares(), i, epilogue_.maxima(), group_);
      } else if constexpr (Blocks<Epilogue>::kCount > 0) {
        if (begins) measure(i);
      }
      epilogue_.run(i, i + 1, i, sums + Exchange<Config>::start(i, 0),
                    sums + Exchange<Config>::start(i, kProducts<Config> - 1), rows(), loads,
                    chunk(i, done));
      if (Config::Staging::kLoadsInRing && Loads::is_last(i)) {
        NamedBarrier::sync(128, group_);  // all warps have read theirs
        release(ring_.stage);
        ring_.next();
      }
      if (kTransfers && warp_ == 0) transfers_.pass_on(i, done, tiles_, more);
    }
    if (kTransfers && warp_ == 0) transfers_.end_tile(done, tiles_, more);
    epilogue_.end_tile();
  }

  // This tile's row vectors in shared memory, kResultColumns apart.
  __device__ __forceinline__ float* rows() const {
    return reinterpret_cast<float*>(shared_memory() + Layout::kRowsAt + group_ * Layout::kRowBytes);
  }

  __device__ __forceinline__ void fence(Accumulators& acc) {
#pragma unroll
    for (auto& sums : acc) {
#pragma unroll
      for (Sum& sum : sums) cute::warpgroup_fence_operand(sum);
    }
  }

  // Tells every CTA that loads into this one that a stage is free.
  __device__ __forceinline__ void release(int stage) {
    constexpr int kM = Config::Producer::kClusterM, kN = Config::Producer::kClusterN;
    if constexpr (kM * kN == 1) {
      if (thread_ == 0) Layout::empty(stage).arrive();
    } else {
      const int rank = cluster_rank<Config>(), rank_m = rank % kM, rank_n = rank / kM;
      int peer = thread_ + kM * rank_n;  // of the same column, then of the same row but ourselves
      if (thread_ >= kM) {
        const int other = thread_ - kM;
        peer = rank_m + kM * (other + (other >= rank_n));
      }
      Layout::empty(stage).arrive(static_cast<uint32_t>(peer), thread_ < kM + kN - 1);
    }
  }

  const abi::GemmParams& p_;
  int group_, thread_, warp_, lane_;
  Schedule tiles_;
  RingPosition<Config::kStages> ring_;
  uint32_t raw_rows_[kRowFetches][Warp::kRows];
  uint32_t raw_cols_[kBlocks * 2][Warp::kCols];
  uint32_t cols_[kBlocks * 2][Warp::kCols];
  Scaler scaler_;
  Exchange<Config> exchange_;
  Warp epilogue_;
  Squares squares_;
  ChunkTransfers<Config, Epilogue> transfers_;
};

template <class Config, class Epilogue>
__device__ __forceinline__ void dense(const abi::GemmParams& p) {
  constexpr bool kHasTransfers = SharedLayout<Config, Epilogue>::kStagedDepth > 0;
  const int warp = __shfl_sync(0xffffffffu, threadIdx.x >> 5, 0);
  prepare<Config, Epilogue>(warp);
  if (warp < kWarpsPerGroup) {
    cutlass::arch::warpgroup_reg_dealloc<Registers<Config, Epilogue>::kOfProducer>();
    if (warp == 0) {
      produce<Config, Epilogue>(p);
    } else if constexpr (Config::Producer::kGathersA) {
      Gatherer<Config, Epilogue>(p, warp - 1).run();
    } else if (kHasTransfers && warp <= Config::Consumers::kCount) {
      ChunkTransfers<Config, Epilogue>(p, warp - 1).run();
    } else if constexpr (ScaleRing<Config>::kExists) {
      if (warp < kWarpsPerGroup - 1) return start<Config>(p);
      load_scales<Config, SharedLayout<Config, Epilogue>>(p);
    } else {
      start<Config>(p);
    }
  } else {
    cutlass::arch::warpgroup_reg_alloc<Registers<Config, Epilogue>::kToMultiply>();
    Consumer<Config, Epilogue>(p, warp / kWarpsPerGroup - 1).run();
  }
}

}  // namespace epifuse::sm90
