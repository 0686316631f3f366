// The GEMM of GPUs since Ampere: cp.async brings operands to a ring of stages, ldmatrix brings
// fragments to registers one ahead of their use, mma.sync multiplies; then the epilogue.
//
// A generated kernel instantiates gemm() with a Config (kernels/sm80/tile.cuh has the usual one)
// and an Epilogue (codegen/epilogue_cuda.h).
#pragma once

#include "kernels/common/overlap.cuh"
#include "kernels/common/widen.cuh"
#include "kernels/sm80/block_scales.cuh"
#include "kernels/sm80/copy.cuh"
#include "kernels/sm80/epilogue.cuh"
#include "kernels/sm80/split.cuh"
#include "kernels/sm80/tile_scheduler.cuh"

namespace epifuse::sm80 {

template <class Config>
class Mainloop {
  using Element = typename Config::Element;
  using StageA =
      Stage<Element, Config::kAIsKMajor, Config::kTileM, Config::kStepBytes, kWidensB<Config>>;
  using ElementB = ElementOfB<Config>;
  using StageB = Stage<ElementB, Config::kBIsKMajor, Config::kTileN, kStepBytesB<Config>>;
  using ReaderA = FragmentReader<StageA, true>;
  static constexpr int kStages = Config::kStages;
  static constexpr int kStageBytes = StageA::kBytes + StageB::kBytes;
  static constexpr int kParts = kStepBytesB<Config> / 32;  // of a step, each an instruction or two
  static constexpr int kBlocksM = Config::kWarpM / 16, kBlocksN = Config::kWarpN / 16;
  static_assert(kStages * kStageBytes <= Config::kSharedBytes);
  static_assert(Config::kWarpM % 32 == 0 && Config::kWarpN % 32 == 0);
  static_assert(kStages >= 2 && kParts % 2 == 0);

 public:
  // What a lane has of the warp's operands, of 32 bytes of K of b.
  struct Fragments {
    uint32_t a[kBlocksM][ReaderA::kWords], b[kBlocksN][4];
  };
  using Sum = AccumulatorOf<Config::kAddsIntegers>;
  using Sums = Sum[kBlocksM][kBlocksN * 2][4];
  using Scaler = BlockScaler<Config>;

  __device__ __forceinline__ Mainloop(int warp_m, int warp_n, int lane)
      : shared_(shared_address()),
        reader_a_(warp_m * Config::kWarpM, lane),
        reader_b_(warp_n * Config::kWarpN, lane) {}

  // The first steps that a feed copies.
  template <class Feed>
  __device__ __forceinline__ void start(Feed& feed) {
#pragma unroll
    for (int i = 0; i < kStages - 1; ++i) {
      copy_part(feed, i, 0, 1);
      end_step(feed, i);
    }
    await_stage();
  }

  // So many steps of those. Each part of a step is multiplied while the next one is read. The
  // barrier lies before a step's last products: when all warps read the next stage at once, the
  // tensor cores have these to do, and the reads of the two cannot be moved together.
  template <class Feed>
  __device__ __forceinline__ void run(Feed& feed, int steps, Sums& sums, Scaler scaler) {
    Fragments fragments[2];
    read(stage_, 0, fragments[0]);
    scaler.fetch(0);
#pragma unroll 1
    for (int step = 0; step < steps; ++step) {
      scaler.take();
      scaler.fetch(step + 1);
#pragma unroll
      for (int part = 0; part < kParts - 1; ++part) {
        read(stage_, part + 1, fragments[(part + 1) & 1]);
        copy_part(feed, free_stage_, part, kParts - 1);
        multiply(fragments[part & 1], sums, scaler);
      }
      end_step(feed, free_stage_);
      free_stage_ = stage_;
      stage_ = stage_ + 1 == kStages ? 0 : stage_ + 1;
      await_stage();
      read(stage_, 0, fragments[0]);
      multiply(fragments[(kParts - 1) & 1], sums, scaler);
    }
  }

 private:
  // The next stage is there, and nobody reads the one before any more.
  static __device__ __forceinline__ void await_stage() {
    wait_for_copies<kStages - 2>();
    __syncthreads();
  }

  // One of so many parts of a step.
  template <class Feed>
  __device__ __forceinline__ void copy_part(const Feed& feed, int stage, int part,
                                            int parts) const {
    constexpr int kTurnsA = Feed::CopyA::kTurns, kTurnsB = Feed::CopyB::kTurns;
    const uint32_t to = shared_ + stage * kStageBytes;
    feed.a.copy(to, kTurnsA * part / parts, kTurnsA * (part + 1) / parts);
    feed.b.copy(to + StageA::kBytes, kTurnsB * part / parts, kTurnsB * (part + 1) / parts);
  }
  template <class Feed>
  __device__ __forceinline__ void end_step(Feed& feed, int stage) const {
    if (feed.a.is_ragged() || feed.b.is_ragged()) {
      feed.a.copy_ragged(shared_ + stage * kStageBytes);
      feed.b.copy_ragged(shared_ + stage * kStageBytes + StageA::kBytes);
    }
    commit_copies();
    feed.advance();
  }

  __device__ __forceinline__ void read(int stage, int part, Fragments& fragments) const {
    const uint32_t from = shared_ + stage * kStageBytes;
#pragma unroll
    for (int i = 0; i < kBlocksM; ++i) reader_a_.read(from, i, part, fragments.a[i]);
#pragma unroll
    for (int j = 0; j < kBlocksN; ++j) {
      reader_b_.read(from + StageA::kBytes, j, part, fragments.b[j]);
    }
  }

  static __device__ __forceinline__ void multiply(const Fragments& fragments, Sums& sums,
                                                  const Scaler& scaler) {
    if constexpr (kWidensB<Config>) {
      multiply_widened(fragments, sums);
    } else {
      multiply_alike(fragments, sums, scaler);
    }
  }

  // To and fro along N: registers of A stay for a row, those of B where it turns.
  static __device__ __forceinline__ void multiply_alike(const Fragments& fragments, Sums& sums,
                                                        [[maybe_unused]] const Scaler& scaler) {
    constexpr int kBlocks = kBlocksN * 2;
#pragma unroll
    for (int i = 0; i < kBlocksM; ++i) {
#pragma unroll
      for (int turn = 0; turn < kBlocks; ++turn) {
        const int j = i % 2 == 0 ? turn : kBlocks - 1 - turn;
        const uint32_t* const b = fragments.b[j / 2] + j % 2 * 2;
        if constexpr (Config::kHasBlockScales) {
          float own[4] = {};
          Multiply<Element, ElementB>::add(own, fragments.a[i], b);
          scaler.add(i, j, own, sums[i][j]);
        } else {
          add(fragments.a[i], b, sums[i][j]);
        }
      }
    }
  }

  // Each of b is widened once, and multiplied with all of A.
  static __device__ __forceinline__ void multiply_widened(const Fragments& fragments, Sums& sums) {
#pragma unroll
    for (int j = 0; j < kBlocksN * 2; ++j) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const uint32_t word = fragments.b[j / 2][j % 2 * 2 + half];
        const uint32_t b[2] = {Widened<Element, ElementB, 0>::of(word),
                               Widened<Element, ElementB, 1>::of(word)};
#pragma unroll
        for (int i = 0; i < kBlocksM; ++i) {
          const uint32_t* const a = fragments.a[i] + half * 4;
          Multiply<Element, Element>::add(sums[i][j], {a[0], a[1], a[2], a[3]}, b);
        }
      }
    }
  }

  // Where sums are promoted and tensor cores keep few bits, an instruction's sums are its own.
  static __device__ __forceinline__ void add(const uint32_t (&a)[4], const uint32_t* b,
                                             Sum (&sums)[4]) {
    using Instruction = Multiply<Element, ElementB>;
    if constexpr (Config::kPromotesSums && Instruction::kKeepsFewBits) {
      float own[4] = {};
      Instruction::add(own, a, b);
#pragma unroll
      for (int i = 0; i < 4; ++i) sums[i] += own[i];
    } else {
      Instruction::add(sums, a, b);
    }
  }

  uint32_t shared_;
  int stage_ = 0, free_stage_ = kStages - 1;  // to read, to copy to
  ReaderA reader_a_;
  FragmentReader<StageB, false> reader_b_;

 public:
  template <class Rows>
  using CopyA = OperandCopy<StageA, Rows, kThreads<Config>, Config::kAlignmentA, Config::kIsLean>;
  template <class Rows>
  using CopyB = OperandCopy<StageB, Rows, kThreads<Config>, Config::kAlignmentB, Config::kIsLean>;
  static constexpr int kStepK = StageA::kStepK;
};

// Where the elements of an operand are, of the tile's product.
template <class Config, int kBytes>
__device__ __forceinline__ const unsigned char* data_of(const abi::Matrix& x, const Tile& tile) {
  const auto* data = static_cast<const unsigned char*>(x.data);
  if constexpr (Config::kBatched) data += offset_of(x.batch, tile.batch) * kBytes;
  if constexpr (Config::kKGrouped) data += tile.first_k * x.col_stride * kBytes;
  return data;
}

template <class Config>
__device__ __forceinline__ auto rows_of_a(const abi::CopiedGemmParams& p, const Tile& tile) {
  const unsigned char* data = data_of<Config, kElementBytesA<Config>>(p.a, tile);
  const long long row_bytes = p.a.row_stride * kElementBytesA<Config>;
  if constexpr (Config::kGathersA) {
    return GatheredRows{data, row_bytes, tile.m, tile.row_end, p.gemm.rows_of_a};
  } else {
    return EvenRows{data, row_bytes, tile.m, tile.row_end};
  }
}

template <class Config>
__device__ __forceinline__ auto rows_of_b(const abi::CopiedGemmParams& p, const Tile& tile) {
  constexpr int kBytes = kElementBytesB<Config>;
  const unsigned char* data = data_of<Config, kBytes>(p.b, tile);
  const long long row_bytes = p.b.row_stride * kBytes;
  if constexpr (Config::kAdjacentGates) {
    return EvenRows{data, row_bytes, tile.n * 2, p.gemm.n * 2};
  } else if constexpr (Config::kGated) {
    const unsigned char* second = data_of<Config, kBytes>(p.second_b, tile);
    return GateRows<Config::kWarpN>{data, second, row_bytes, tile.n, p.gemm.n};
  } else {
    return EvenRows{data, row_bytes, tile.n, p.gemm.n};
  }
}

// What a CTA copies: the steps of its tile, or of all its tiles one after another.
template <class Config>
class Feed {
  using Loop = Mainloop<Config>;
  using Params = abi::CopiedGemmParams;

 public:
  using CopyA = typename Loop::template CopyA<decltype(rows_of_a<Config>(
      *static_cast<const Params*>(nullptr), Tile()))>;
  using CopyB = typename Loop::template CopyB<decltype(rows_of_b<Config>(
      *static_cast<const Params*>(nullptr), Tile()))>;

  // From a tile on, to the end of K or before.
  __device__ __forceinline__ Feed(const TileScheduler<Config>& at, int k)
      : a(copy_of_a(at, k)), b(copy_of_b(at, k)), tiles_(at), left_(at.steps()) {}

  __device__ __forceinline__ void advance(int steps = 1) {
    a.advance(steps);
    b.advance(steps);
    if constexpr (Config::kPersistent) {
      if (--left_ == 0 && tiles_.next()) {
        a = copy_of_a(tiles_, tiles_.k());
        b = copy_of_b(tiles_, tiles_.k());
        left_ = tiles_.steps();
      }
    }
  }

  CopyA a;
  CopyB b;

 private:
  static __device__ __forceinline__ CopyA copy_of_a(const TileScheduler<Config>& at, int k) {
    const Params& p = at.params();
    return {rows_of_a<Config>(p, at.tile()), p.a.col_stride * kElementBytesA<Config>, k,
            static_cast<int>(threadIdx.x)};
  }
  static __device__ __forceinline__ CopyB copy_of_b(const TileScheduler<Config>& at, int k) {
    const Params& p = at.params();
    return {rows_of_b<Config>(p, at.tile()), p.b.col_stride * kElementBytesB<Config>, k,
            static_cast<int>(threadIdx.x)};
  }

  TileScheduler<Config> tiles_;
  int left_;  // steps of the tile that is copied
};

// A warp's place in a CTA, and its way out.
template <class Config, class Epilogue>
struct Warp {
  using Out = WarpEpilogue<Config, Epilogue>;
  static constexpr int kWarpsM = Config::kTileM / Config::kWarpM;
  static_assert(kStagedAt<Config> + Out::kMaximaBytes + kThreads<Config> / 32 * Out::kStagedBytes <=
                Config::kSharedBytes);
  int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
  int m = warp % kWarpsM, n = warp / kWarpsM;

  __device__ __forceinline__ BlockScaler<Config> scaler(const TileScheduler<Config>& at,
                                                        int first_step) const {
    return {at.params().gemm, at.tile(), m, n, lane, first_step};
  }
  __device__ __forceinline__ Out out(const TileScheduler<Config>& at) const {
    return {at.params().gemm, at.tile(), m, n, shared_memory() + kStagedAt<Config>, warp, lane};
  }
};

// A CTA takes tiles until there are none. Copies go on to the next tile while the products of the
// last steps are summed, so its first stages come during the epilogue.
template <class Config, class Epilogue>
__device__ __forceinline__ void persistent_gemm(const typename TileScheduler<Config>::Params& p) {
  const Warp<Config, Epilogue> warp;
  TileScheduler<Config> tiles(p);
  if (!tiles.next()) return;
  Feed<Config> feed(tiles, tiles.k());
  Mainloop<Config> loop(warp.m, warp.n, warp.lane);
  loop.start(feed);
  do {
    warp.out(tiles).prefetch_tiles();
    typename Mainloop<Config>::Sums sums = {};
    loop.run(feed, tiles.steps(), sums, warp.scaler(tiles, 0));
    warp.out(tiles).run(sums);
  } while (tiles.next());
  wait_for_copies<0>();  // of the zeros behind the last tile
}

// Of problems that kernels/sm80/pointer_arrays.cuh has described.
template <class Config, class Epilogue>
__device__ __forceinline__ void gemm_of_problems(const abi::ProblemList& p) {
  await_previous_kernel();
  persistent_gemm<Config, Epilogue>(p);
}

template <class Config, class Epilogue>
__device__ __forceinline__ void gemm(const abi::CopiedGemmParams& p) {
  await_previous_kernel();
  if constexpr (Config::kPersistent) return persistent_gemm<Config, Epilogue>(p);
  const Warp<Config, Epilogue> warp;
  const Share share = share_of_cta<Config>();
  TileScheduler<Config> tiles(p, share.tile);
  if (!tiles.next()) return;
  if constexpr (Config::kSplitK == 1) warp.out(tiles).prefetch_tiles();
  int k = tiles.k(), steps = steps_of<Config>(k), first = 0;
  if constexpr (Config::kSplitK > 1) {  // to the end of the CTA's part
    first = first_step<Config>(steps, share.part);
    steps = first_step<Config>(steps, share.part + 1);
    k = min(k, steps * kStepK<Config>);
  }
  Feed<Config> feed(tiles, k);
  if constexpr (Config::kSplitK > 1) feed.advance(first);
  typename Mainloop<Config>::Sums sums = {};
  if (steps > first) {
    Mainloop<Config> loop(warp.m, warp.n, warp.lane);
    loop.start(feed);
    loop.run(feed, steps - first, sums, warp.scaler(tiles, first));
  }
  wait_for_copies<0>();
  __syncthreads();  // the epilogue's staging takes the place of the stages
  if constexpr (Config::kSplitK > 1) {
    if (!SplitTile<Config>::combine(p.split, sums, static_cast<int>(threadIdx.x))) return;
    TileScheduler<Config> again(p, share_of_cta<Config>().tile);  // sums take all registers
    again.next();
    warp.out(again).run(sums);
  } else {
    warp.out(tiles).run(sums);
  }
}

}  // namespace epifuse::sm80
