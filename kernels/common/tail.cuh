// Tail kernels: elementwise work on whole tensors, and the row or column reductions that end it.
//
// A generated kernel instantiates elementwise(), row_reduction() or column_reduction() with
//   struct Tail {
//     using Epilogue = ...;            // what is done to each element (codegen/epilogue_cuda.h)
//     static constexpr int kVector;    // consecutive elements of a row that a thread takes at once
//     static constexpr int kChunks;    // such vectors that it has in flight
//     static constexpr Reduce kReduce[];  // for each store
//     static constexpr bool kLooksUp;     // whether rows of loads are looked up,
//     static constexpr bool kPutsRows;    // or those of stores: then `p` begins a LookupTailParams
//   };
// A tail may be launched before the kernel ahead of it has ended; it waits for that itself.
// Sums and maxima are taken in a fixed order, so that equal inputs give equal bits.
#pragma once

#include "kernels/abi.h"
#include "kernels/common/either.cuh"
#include "kernels/common/element.cuh"
#include "kernels/common/math.cuh"
#include "kernels/common/operands.cuh"
#include "kernels/common/overlap.cuh"
#include "kernels/common/reduce.cuh"
#include "kernels/common/tail_operands.cuh"

namespace epifuse::tail {

using epifuse::Reduce;

constexpr int kThreads = abi::kTailThreads;
constexpr int kWarp = 32;

// A tail at one index of the leading dims: its operands, and what to do with them.
template <class Tail>
struct Body {
  using Epilogue = typename Tail::Epilogue;
  using Rows = typename Epilogue::Rows;
  using Cols = typename Epilogue::Cols;
  using Tiles = typename Epilogue::Tiles;
  using Scalars = typename Epilogue::Scalars;
  using Stores = typename Epilogue::Stores;
  static constexpr int kVector = Tail::kVector;
  static constexpr int kFirstCol = Rows::kCount, kFirstTile = kFirstCol + Cols::kCount;
  static constexpr int kFirstScalar = kFirstTile + Tiles::kCount;
  static constexpr int kNumLoads = kFirstScalar + Scalars::kCount;
  static constexpr int kNumStores = Stores::kCount;
  using Values = float[kVector][kNumStores];

  struct Chunk {  // the operands of one vector, in flight
    Place at;
    Fetched<kVector, Rows> rows;
    Fetched<kVector, Cols> cols;
    Fetched<kVector, Tiles> tiles;
    Fetched<kVector, Scalars> scalars;
  };

  using Source = typename Either<Tail::kLooksUp, LookupMatrix, Matrix>::Type;
  using Target = typename Either<Tail::kPutsRows, LookupMatrix, Matrix>::Type;

  const abi::TailParams& p;
  Source loads[at_least_one(kNumLoads)];
  Target stores[kNumStores];

  __device__ __forceinline__ Body(const abi::TailParams& params, long long outer) : p(params) {
    const auto& lookups = reinterpret_cast<const abi::LookupTailParams&>(params);
    open<0>(loads, p.loads, lookups.loads, p.vector_loads, outer, Rows{});
    open<kFirstCol>(loads, p.loads, lookups.loads, p.vector_loads, outer, Cols{});
    open<kFirstTile>(loads, p.loads, lookups.loads, p.vector_loads, outer, Tiles{});
    open<kFirstScalar>(loads, p.loads, lookups.loads, p.vector_loads, outer, Scalars{});
    open<0>(stores, p.stores, lookups.stores, p.vector_stores, outer, Stores{});
  }

  __device__ __forceinline__ void fetch(Chunk& chunk, const Place& at) const {
    chunk.at = at;
    if (at.count == 0) return;
    chunk.tiles.fetch(loads + kFirstTile, at);
    chunk.rows.fetch(loads, at);
    chunk.cols.fetch(loads + kFirstCol, at);
    chunk.scalars.fetch(loads + kFirstScalar, at);
  }

  using Largest = float[at_least_one(Blocks<Epilogue>::kCount)];

  // Computes the values of a fetched vector and writes those that are stored as they are.
  __device__ __forceinline__ void finish(Chunk& chunk, Values& values) const {
    settle(chunk);
    Largest largest;
    if constexpr (Blocks<Epilogue>::kCount > 0) find_largest(chunk, largest);
    finish(chunk, largest, values);
  }

  __device__ __forceinline__ void settle(Chunk& chunk) const {
    chunk.tiles.settle(loads + kFirstTile);
    chunk.rows.settle(loads);
    chunk.cols.settle(loads + kFirstCol);
    chunk.scalars.settle(loads + kFirstScalar);
  }

  // Of a settled vector, whose blocks have these maxima.
  __device__ __forceinline__ void finish(const Chunk& chunk, const Largest& largest,
                                         Values& values) const {
#pragma unroll
    for (int i = 0; i < kVector; ++i) {
      Operands<Epilogue> x = operands(chunk, i);
      for (int b = 0; b < Blocks<Epilogue>::kCount; ++b) x.block[b] = largest[b];
      Epilogue::apply(x, values[i]);
    }
    put<0>(chunk.at, values);
  }

  __device__ __forceinline__ Operands<Epilogue> operands(const Chunk& chunk, int i) const {
    Operands<Epilogue> x;
    chunk.rows.get(i, x.row);
    chunk.cols.get(i, x.col);
    chunk.tiles.get(i, x.tile);
    chunk.scalars.get(i, x.scalar);
#pragma unroll
    for (int k = 0; k < Epilogue::kNumParameters; ++k) x.parameter[k] = p.parameters[k];
    return x;
  }

  // kernels/common/tail_blocks.cuh: of the block that a warp's lanes have a vector each of, and of
  // one vector and what there was.
  __device__ __forceinline__ void find_largest(const Chunk& chunk, Largest& largest) const;
  __device__ __forceinline__ void add_largest(const Chunk& chunk, Largest& largest) const;

  template <int kStore>
  __device__ __forceinline__ void put_one(long long row, long long col, float value) const {
    using Element = typename TypeAt<Stores, kStore>::Type;
    auto* target = stores[kStore].template at<Element>(row, col);
    if (!Tail::kPutsRows || target != nullptr) *target = Element::store(value);
  }

 private:
  template <int kIndex, class M>
  __device__ __forceinline__ void open(M*, const abi::Strided*, const abi::Lookup*, unsigned,
                                       long long, Types<>) const {}
  template <int kIndex, class M, class Element, class... Rest>
  __device__ __forceinline__ void open(M* matrices, const abi::Strided* operands,
                                       const abi::Lookup* lookups, unsigned vectors,
                                       long long outer, Types<Element, Rest...>) const {
    const abi::Lookup* lookup = M::kLooksUp ? lookups + kIndex : nullptr;
    const bool vector = (vectors >> kIndex & 1u) != 0;
    const Matrix opened = matrix<Element>(p, operands[kIndex], lookup, vector, outer);
    if constexpr (M::kLooksUp) {
      matrices[kIndex] = {opened, lookup};
    } else {
      matrices[kIndex] = opened;
    }
    open<kIndex + 1>(matrices, operands, lookups, vectors, outer, Types<Rest...>{});
  }

  template <int kStore>
  __device__ __forceinline__ void put(const Place& at, const Values& values) const {
    if constexpr (kStore < kNumStores) {
      if constexpr (Blocks<Epilogue>::kStores >> kStore & 1) {
        constexpr int kRows = Blocks<Epilogue>::kRows;
        const bool is_first = at.col % kBlockColumns == 0 && at.row % kRows == 0;
        if (at.count == 0 || !is_first) return put<kStore + 1>(at, values);
        put_one<kStore>(at.row / kRows, at.col / kBlockColumns, values[0][kStore]);
      } else if constexpr (Tail::kReduce[kStore] == Reduce::none) {
        Packed<typename TypeAt<Stores, kStore>::Type, kVector> packed;
        packed.set(values, kStore);
        packed.put(stores[kStore], at);
      }
      put<kStore + 1>(at, values);
    }
  }
};

// What a block works on: every `step`th index of the leading dims, which it shares with the other
// blocks of its group.
struct Share {
  long long outer, num_outer, step;
  int block;  // its rank in the group

  __device__ __forceinline__ explicit Share(const abi::TailParams& p) : num_outer(1) {
#pragma unroll
    for (int d = 0; d < kRowDim; ++d) num_outer *= p.sizes[d];
    const unsigned group = blockIdx.x / static_cast<unsigned>(p.inner_blocks);
    outer = group;
    step = gridDim.x / static_cast<unsigned>(p.inner_blocks);
    block = static_cast<int>(blockIdx.x - group * static_cast<unsigned>(p.inner_blocks));
  }
};

// Elementwise work: the threads of the group take the vectors of the matrix in turn, row by row.
template <class Tail>
__device__ __forceinline__ void elementwise(const abi::TailParams& p) {
  using B = Body<Tail>;
  await_previous_kernel();
  const long long num_rows = p.sizes[kRowDim], num_cols = p.sizes[kColDim];
  const long long vectors = (num_cols + B::kVector - 1) / B::kVector;  // of a row
  const long long num_threads = static_cast<long long>(p.inner_blocks) * kThreads;
  const long long row_step = num_threads / vectors, vector_step = num_threads % vectors;
  Share share(p);
  const long long first = static_cast<long long>(share.block) * kThreads + threadIdx.x;
  for (; share.outer < share.num_outer; share.outer += share.step) {
    const B body(p, share.outer);
    long long row = first / vectors, vector = first % vectors;
    while (row < num_rows) {
      typename B::Chunk chunks[Tail::kChunks];
#pragma unroll
      for (int c = 0; c < Tail::kChunks; ++c) {
        Place at = place<B::kVector>(row, vector * B::kVector, num_cols);
        if (row >= num_rows) at.count = 0;
        body.fetch(chunks[c], at);
        row += row_step;
        vector += vector_step;
        if (vector >= vectors) {
          vector -= vectors;
          ++row;
        }
      }
#pragma unroll
      for (int c = 0; c < Tail::kChunks; ++c) {
        if (chunks[c].at.count == 0) continue;
        typename B::Values values;
        body.finish(chunks[c], values);
      }
    }
  }
}

// The reductions of a thread: one accumulator per store and slot (1, or one per column).
template <class Tail, int kSlots>
struct Accumulators {
  static constexpr int kNumStores = Body<Tail>::kNumStores;
  float sum[kNumStores][kSlots];

  __device__ __forceinline__ Accumulators() { start<0>(); }

  template <int kStore>
  __device__ __forceinline__ void start() {
    if constexpr (kStore < kNumStores) {
#pragma unroll
      for (int s = 0; s < kSlots; ++s) sum[kStore][s] = identity<Tail::kReduce[kStore]>();
      start<kStore + 1>();
    }
  }

  // Takes in the first `count` values; with several slots, the i-th goes to slot i.
  template <int kStore>
  __device__ __forceinline__ void add(const typename Body<Tail>::Values& values, int count) {
    if constexpr (kStore < kNumStores) {
      constexpr Reduce kReduce = Tail::kReduce[kStore];
      if constexpr (kReduce != Reduce::none) {
#pragma unroll
        for (int i = 0; i < Tail::kVector; ++i) {
          float& slot = sum[kStore][kSlots == 1 ? 0 : i];
          if (i < count) slot = combine<kReduce>(slot, values[i][kStore]);
        }
      }
      add<kStore + 1>(values, count);
    }
  }
};

// One value from every thread of the `lanes` (a warp, or the block) that work on a row, combined in
// a fixed order; valid in the first of them.
template <Reduce kReduce>
__device__ __forceinline__ float across_lanes(float value, int lanes, float* scratch) {
#pragma unroll
  for (int distance = kWarp / 2; distance > 0; distance /= 2) {
    value = combine<kReduce>(value, __shfl_xor_sync(0xffffffffu, value, distance));
  }
  if (lanes == kWarp) return value;
  __syncthreads();  // the scratch of the call before has been read
  if (threadIdx.x % kWarp == 0) scratch[threadIdx.x / kWarp] = value;
  __syncthreads();
  value = scratch[0];
#pragma unroll
  for (int w = 1; w < kThreads / kWarp; ++w) value = combine<kReduce>(value, scratch[w]);
  return value;
}

template <class Tail, int kStore>
__device__ __forceinline__ void finalize_row(const Body<Tail>& body,
                                             const Accumulators<Tail, 1>& accumulators,
                                             long long row, int lane, int lanes, float* scratch) {
  if constexpr (kStore < Body<Tail>::kNumStores) {
    constexpr Reduce kReduce = Tail::kReduce[kStore];
    if constexpr (kReduce != Reduce::none) {
      const float result = across_lanes<kReduce>(accumulators.sum[kStore][0], lanes, scratch);
      if (lane == 0) body.template put_one<kStore>(row, 0, result);
    }
    finalize_row<Tail, kStore + 1>(body, accumulators, row, lane, lanes, scratch);
  }
}

// Reductions along the last dim: a warp or a block takes a row at a time.
template <class Tail>
__device__ __forceinline__ void row_reduction(const abi::TailParams& p) {
  using B = Body<Tail>;
  await_previous_kernel();
  __shared__ float scratch[kThreads / kWarp];
  const long long num_rows = p.sizes[kRowDim], num_cols = p.sizes[kColDim];
  const int lane = static_cast<int>(threadIdx.x) % p.lanes, rows_at_once = kThreads / p.lanes;
  Share share(p);
  const long long first =
      static_cast<long long>(share.block) * rows_at_once + static_cast<int>(threadIdx.x) / p.lanes;
  const long long row_step = static_cast<long long>(p.inner_blocks) * rows_at_once;
  for (; share.outer < share.num_outer; share.outer += share.step) {
    const B body(p, share.outer);
    for (long long row = first; row < num_rows; row += row_step) {
      Accumulators<Tail, 1> accumulators;
      for (long long col = lane * B::kVector; col < num_cols;
           col += p.lanes * B::kVector * Tail::kChunks) {
        typename B::Chunk chunks[Tail::kChunks];
#pragma unroll
        for (int c = 0; c < Tail::kChunks; ++c) {
          const long long at = col + static_cast<long long>(c) * p.lanes * B::kVector;
          body.fetch(chunks[c], place<B::kVector>(row, at, num_cols));
        }
#pragma unroll
        for (int c = 0; c < Tail::kChunks; ++c) {
          if (chunks[c].at.count == 0) continue;
          typename B::Values values;
          body.finish(chunks[c], values);
          accumulators.template add<0>(values, chunks[c].at.count);
        }
      }
      finalize_row<Tail, 0>(body, accumulators, row, lane, p.lanes, scratch);
    }
  }
}

template <class Tail, int kStore>
__device__ __forceinline__ void finalize_columns(
    const Body<Tail>& body, const Accumulators<Tail, Tail::kVector>& accumulators, const Place& at,
    int lanes, float (*scratch)[kThreads]) {
  if constexpr (kStore < Body<Tail>::kNumStores) {
    constexpr Reduce kReduce = Tail::kReduce[kStore];
    if constexpr (kReduce != Reduce::none) {
      const int thread = static_cast<int>(threadIdx.x);
      __syncthreads();  // the scratch of the store before has been read
#pragma unroll
      for (int i = 0; i < Tail::kVector; ++i) scratch[i][thread] = accumulators.sum[kStore][i];
      for (int half = kThreads / 2; half >= lanes; half /= 2) {
        __syncthreads();
        if (thread >= half) continue;
#pragma unroll
        for (int i = 0; i < Tail::kVector; ++i) {
          scratch[i][thread] = combine<kReduce>(scratch[i][thread], scratch[i][thread + half]);
        }
      }
#pragma unroll
      for (int i = 0; i < Tail::kVector; ++i) {
        if (thread < lanes && i < at.count) {
          body.template put_one<kStore>(0, at.col + i, scratch[i][thread]);
        }
      }
    }
    finalize_columns<Tail, kStore + 1>(body, accumulators, at, lanes, scratch);
  }
}

// Reductions along the dim before the last: a block takes a strip of columns and walks its rows.
template <class Tail>
__device__ __forceinline__ void column_reduction(const abi::TailParams& p) {
  using B = Body<Tail>;
  await_previous_kernel();
  __shared__ float scratch[B::kVector][kThreads];
  const long long num_rows = p.sizes[kRowDim], num_cols = p.sizes[kColDim];
  const int lane = static_cast<int>(threadIdx.x) % p.lanes, rows_at_once = kThreads / p.lanes;
  const int first_row = static_cast<int>(threadIdx.x) / p.lanes;
  const int strip = p.lanes * B::kVector;
  Share share(p);
  const long long first = static_cast<long long>(share.block) * strip;
  for (; share.outer < share.num_outer; share.outer += share.step) {
    const B body(p, share.outer);
    for (long long begin = first; begin < num_cols;
         begin += static_cast<long long>(p.inner_blocks) * strip) {
      const long long col = begin + lane * B::kVector;
      Accumulators<Tail, B::kVector> accumulators;
      for (long long row = first_row; row < num_rows; row += rows_at_once * Tail::kChunks) {
        typename B::Chunk chunks[Tail::kChunks];
#pragma unroll
        for (int c = 0; c < Tail::kChunks; ++c) {
          const long long at_row = row + c * rows_at_once;
          Place at = place<B::kVector>(at_row, col, num_cols);
          if (at_row >= num_rows) at.count = 0;
          body.fetch(chunks[c], at);
        }
#pragma unroll
        for (int c = 0; c < Tail::kChunks; ++c) {
          if (chunks[c].at.count == 0) continue;
          typename B::Values values;
          body.finish(chunks[c], values);
          accumulators.template add<0>(values, chunks[c].at.count);
        }
      }
      finalize_columns<Tail, 0>(body, accumulators, place<B::kVector>(0, col, num_cols), p.lanes,
                                scratch);
    }
  }
}

}  // namespace epifuse::tail
