// Tails that take maxima over blocks of 128 columns: a warp has a block of a row at a time, each
// lane a vector of it. All warps have a square together, rows by turns.
#pragma once

#include "kernels/common/tail.cuh"

namespace epifuse::tail {

template <class Tail>
__device__ __forceinline__ void Body<Tail>::add_largest(const Chunk& chunk,
                                                        Largest& largest) const {
#pragma unroll
  for (int i = 0; i < kVector; ++i) {
    if (i >= chunk.at.count) continue;
    Largest values;
    Epilogue::measure(operands(chunk, i), values);
#pragma unroll
    for (int b = 0; b < Blocks<Epilogue>::kCount; ++b) {
      largest[b] = combine<Reduce::max>(largest[b], values[b]);
    }
  }
}

template <class Tail>
__device__ __forceinline__ void Body<Tail>::find_largest(const Chunk& chunk,
                                                         Largest& largest) const {
#pragma unroll
  for (int b = 0; b < Blocks<Epilogue>::kCount; ++b) largest[b] = identity<Reduce::max>();
  add_largest(chunk, largest);
#pragma unroll
  for (int b = 0; b < Blocks<Epilogue>::kCount; ++b) {
    largest[b] = across_lanes<Reduce::max>(largest[b], kWarp, nullptr);
  }
}

template <class Tail>
__device__ __forceinline__ void blocks(const abi::TailParams& p) {
  using B = Body<Tail>;
  static_assert(B::kVector * kWarp == kBlockColumns);
  await_previous_kernel();
  const long long num_rows = p.sizes[kRowDim], num_cols = p.sizes[kColDim];
  const long long in_row = (num_cols + kBlockColumns - 1) / kBlockColumns;
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  constexpr int kWarps = kThreads / kWarp;
  Share share(p);
  const long long first =
      static_cast<long long>(share.block) * kWarps + static_cast<int>(threadIdx.x) / kWarp;
  const long long step = static_cast<long long>(p.inner_blocks) * kWarps;
  for (; share.outer < share.num_outer; share.outer += share.step) {
    const B body(p, share.outer);
    for (long long at = first; at < num_rows * in_row; at += step) {
      const long long row = at / in_row;
      const long long column = (at - row * in_row) * kBlockColumns + lane * B::kVector;
      typename B::Chunk chunk;
      body.fetch(chunk, place<B::kVector>(row, column, num_cols));
      typename B::Values values;
      body.finish(chunk, values);
    }
  }
}

template <class Tail>
__device__ __forceinline__ void squares(const abi::TailParams& p) {
  using B = Body<Tail>;
  using Square = Blocks<typename B::Epilogue>;
  constexpr int kWarps = kThreads / kWarp;
  static_assert(B::kVector * kWarp == kBlockColumns && Square::kRows % kWarps == 0);
  await_previous_kernel();
  __shared__ float scratch[kWarps];
  const long long num_cols = p.sizes[kColDim], across = num_cols / kBlockColumns;
  const long long count = p.sizes[kRowDim] / Square::kRows * across;
  const int warp = static_cast<int>(threadIdx.x) / kWarp;
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  for (Share share(p); share.outer < share.num_outer; share.outer += share.step) {
    const B body(p, share.outer);
    for (long long at = share.block; at < count; at += p.inner_blocks) {
      const long long first = at / across * Square::kRows + warp;
      const long long column = at % across * kBlockColumns + lane * B::kVector;
      const auto fetch = [&](typename B::Chunk& chunk, int row) {
        body.fetch(chunk, place<B::kVector>(first + row, column, num_cols));
        body.settle(chunk);
      };
      typename B::Largest largest;
#pragma unroll
      for (int b = 0; b < Square::kCount; ++b) largest[b] = identity<Reduce::max>();
      for (int row = 0; row < Square::kRows && Square::kCount > 0; row += kWarps) {
        typename B::Chunk chunk;
        fetch(chunk, row);
        body.add_largest(chunk, largest);
      }
#pragma unroll
      for (int b = 0; b < Square::kCount; ++b) {
        largest[b] = across_lanes<Reduce::max>(largest[b], kThreads, scratch);
      }
      for (int row = 0; row < Square::kRows; row += kWarps) {
        typename B::Chunk chunk;
        fetch(chunk, row);
        typename B::Values values;
        body.finish(chunk, largest, values);
      }
    }
  }
}

}  // namespace epifuse::tail
