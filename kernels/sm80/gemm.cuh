// The GEMM of GPUs since Ampere: cp.async brings operands to a ring of stages, ldmatrix brings
// fragments to registers one ahead of their use, mma.sync multiplies; then the epilogue.
//
// A generated kernel instantiates gemm() with a Config (kernels/sm80/tile.cuh has the usual one)
// and an Epilogue (codegen/epilogue_cuda.h).
#pragma once

#include "kernels/common/overlap.cuh"
#include "kernels/sm80/copy.cuh"
#include "kernels/sm80/epilogue.cuh"
#include "kernels/sm80/split.cuh"

namespace epifuse::sm80 {

template <class Config>
class Mainloop {
  using Element = typename Config::Element;
  using StageA = Stage<Element, Config::kAIsKMajor, Config::kTileM, Config::kStepBytes>;
  using StageB = Stage<Element, Config::kBIsKMajor, Config::kTileN, Config::kStepBytes>;
  static constexpr int kStages = Config::kStages;
  static constexpr int kStageBytes = StageA::kBytes + StageB::kBytes;
  static constexpr int kParts = Config::kStepBytes / 32;  // instructions along K, of a step
  static constexpr int kBlocksM = Config::kWarpM / 16, kBlocksN = Config::kWarpN / 16;
  static_assert(kStages * kStageBytes <= Config::kSharedBytes);
  static_assert(Config::kWarpM % 32 == 0 && Config::kWarpN % 32 == 0);
  static_assert(kStages >= 2 && kParts % 2 == 0);

 public:
  // What a lane has of the warp's operands, of 32 bytes of K.
  struct Fragments {
    uint32_t a[kBlocksM][4], b[kBlocksN][4];
  };
  using Sums = float[kBlocksM][kBlocksN * 2][4];

  __device__ __forceinline__ Mainloop(int warp_m, int warp_n, int lane)
      : shared_(shared_address()),
        reader_a_(warp_m * Config::kWarpM, lane),
        reader_b_(warp_n * Config::kWarpN, lane) {}

  // Of so many steps of K, which `a` and `b` copy. Each part of a step is multiplied while the next
  // one is read. The barrier lies before a step's last products: when all warps read the next stage
  // at once, the tensor cores have these to do, and the reads of the two cannot be moved together.
  template <class CopyA, class CopyB>
  __device__ __forceinline__ void run(CopyA& a, CopyB& b, int steps, Sums& sums) {
    if (steps == 0) return;
#pragma unroll
    for (int i = 0; i < kStages - 1; ++i) {
      copy_part(a, b, i, 0, 1);
      end_step(a, b, i);
    }
    Fragments fragments[2];
    int stage = 0, free_stage = kStages - 1;
    await_stage();
    read(stage, 0, fragments[0]);
#pragma unroll 1
    for (int step = 0; step < steps; ++step) {
#pragma unroll
      for (int part = 0; part < kParts - 1; ++part) {
        read(stage, part + 1, fragments[(part + 1) & 1]);
        copy_part(a, b, free_stage, part, kParts - 1);
        multiply(fragments[part & 1], sums);
      }
      end_step(a, b, free_stage);
      free_stage = stage;
      stage = stage + 1 == kStages ? 0 : stage + 1;
      await_stage();
      read(stage, 0, fragments[0]);
      multiply(fragments[(kParts - 1) & 1], sums);
    }
  }

 private:
  // The next stage is there, and nobody reads the one before any more.
  static __device__ __forceinline__ void await_stage() {
    wait_for_copies<kStages - 2>();
    __syncthreads();
  }

  // One of so many parts of a step.
  template <class CopyA, class CopyB>
  __device__ __forceinline__ void copy_part(const CopyA& a, const CopyB& b, int stage, int part,
                                            int parts) const {
    const uint32_t to = shared_ + stage * kStageBytes;
    a.copy(to, CopyA::kTurns * part / parts, CopyA::kTurns * (part + 1) / parts);
    b.copy(to + StageA::kBytes, CopyB::kTurns * part / parts, CopyB::kTurns * (part + 1) / parts);
  }
  template <class CopyA, class CopyB>
  __device__ __forceinline__ void end_step(CopyA& a, CopyB& b, int stage) const {
    if (a.is_ragged() || b.is_ragged()) {
      a.copy_ragged(shared_ + stage * kStageBytes);
      b.copy_ragged(shared_ + stage * kStageBytes + StageA::kBytes);
    }
    commit_copies();
    a.advance();
    b.advance();
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

  // To and fro along N: registers of A stay for a row, those of B where it turns.
  static __device__ __forceinline__ void multiply(const Fragments& fragments, Sums& sums) {
    constexpr int kBlocks = kBlocksN * 2;
#pragma unroll
    for (int i = 0; i < kBlocksM; ++i) {
#pragma unroll
      for (int turn = 0; turn < kBlocks; ++turn) {
        const int j = i % 2 == 0 ? turn : kBlocks - 1 - turn;
        Multiply<Element>::add(sums[i][j], fragments.a[i], fragments.b[j / 2] + j % 2 * 2);
      }
    }
  }

  uint32_t shared_;
  FragmentReader<StageA, true> reader_a_;
  FragmentReader<StageB, false> reader_b_;

 public:
  template <class Rows>
  using CopyA = OperandCopy<StageA, Rows, kThreads<Config>, Config::kAlignmentA, Config::kIsLean>;
  template <class Rows>
  using CopyB = OperandCopy<StageB, Rows, kThreads<Config>, Config::kAlignmentB, Config::kIsLean>;
  static constexpr int kStepK = StageA::kStepK;
};

// Where the elements of an operand are, of the tile's product.
template <class Config>
__device__ __forceinline__ const unsigned char* data_of(const abi::Matrix& x, const Tile& tile) {
  constexpr int kBytes = sizeof(typename Config::Element::Storage);
  const auto* data = static_cast<const unsigned char*>(x.data);
  if constexpr (Config::kBatched) data += offset_of(x.batch, tile.batch) * kBytes;
  return data;
}

template <class Config>
__device__ __forceinline__ auto rows_of_a(const abi::CopiedGemmParams& p, const Tile& tile) {
  const unsigned char* data = data_of<Config>(p.a, tile);
  const long long row_bytes = p.a.row_stride * sizeof(typename Config::Element::Storage);
  if constexpr (Config::kGathersA) {
    return GatheredRows{data, row_bytes, tile.m, tile.row_end, p.gemm.rows_of_a};
  } else {
    return EvenRows{data, row_bytes, tile.m, tile.row_end};
  }
}

template <class Config>
__device__ __forceinline__ auto rows_of_b(const abi::CopiedGemmParams& p, const Tile& tile) {
  const unsigned char* data = data_of<Config>(p.b, tile);
  const long long row_bytes = p.b.row_stride * sizeof(typename Config::Element::Storage);
  if constexpr (Config::kAdjacentGates) {
    return EvenRows{data, row_bytes, tile.n * 2, p.gemm.n * 2};
  } else if constexpr (Config::kGated) {
    const unsigned char* second = data_of<Config>(p.second_b, tile);
    return GateRows<Config::kWarpN>{data, second, row_bytes, tile.n, p.gemm.n};
  } else {
    return EvenRows{data, row_bytes, tile.n, p.gemm.n};
  }
}

template <class Config, class Epilogue>
__device__ __forceinline__ void gemm(const abi::CopiedGemmParams& p) {
  using Loop = Mainloop<Config>;
  using Out = WarpEpilogue<Config, Epilogue>;
  constexpr int kWarpsM = Config::kTileM / Config::kWarpM;
  constexpr int kElementBytes = sizeof(typename Config::Element::Storage);
  static_assert(kThreads<Config> / 32 * Out::kStagedBytes <= Config::kSharedBytes);
  await_previous_kernel();
  const Share share = share_of_cta<Config>();
  Tile tile;
  if (!find_tile<Config>(p.gemm, share.tile, tile)) return;
  const int thread = static_cast<int>(threadIdx.x), warp = thread / 32, lane = thread % 32;
  const int warp_m = warp % kWarpsM, warp_n = warp / kWarpsM;
  unsigned char* const staged = shared_memory() + warp * Out::kStagedBytes;
  Out out(p.gemm, tile, warp_m, warp_n, staged, lane);
  if constexpr (Config::kSplitK == 1) out.prefetch_tiles();

  typename Loop::Sums sums = {};
  const auto rows_a = rows_of_a<Config>(p, tile);
  const auto rows_b = rows_of_b<Config>(p, tile);
  int k = p.gemm.k, steps = (k + Loop::kStepK - 1) / Loop::kStepK, first = 0;
  if constexpr (Config::kSplitK > 1) {  // to the end of the CTA's part
    first = first_step<Config>(steps, share.part);
    steps = first_step<Config>(steps, share.part + 1);
    k = min(k, steps * Loop::kStepK);
  }
  typename Loop::template CopyA<decltype(rows_of_a<Config>(p, tile))> a(
      rows_a, p.a.col_stride * kElementBytes, k, thread);
  typename Loop::template CopyB<decltype(rows_of_b<Config>(p, tile))> b(
      rows_b, p.b.col_stride * kElementBytes, k, thread);
  if constexpr (Config::kSplitK > 1) {
    a.advance(first);
    b.advance(first);
  }
  Loop(warp_m, warp_n, lane).run(a, b, steps - first, sums);
  wait_for_copies<0>();
  __syncthreads();  // the epilogue's staging takes the place of the stages
  if constexpr (Config::kSplitK > 1) {
    if (!SplitTile<Config>::combine(p.split, sums, thread)) return;
    Tile again;  // computed anew, as sums and what is added to them take all registers
    find_tile<Config>(p.gemm, share_of_cta<Config>().tile, again);
    Out(p.gemm, again, warp_m, warp_n, staged, lane).run(sums);
  } else {
    out.run(sums);
  }
}

}  // namespace epifuse::sm80
