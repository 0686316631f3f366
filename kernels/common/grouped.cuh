// The product of groups of rows, each with a matrix of its own, on tensors that no faster kernel
// takes: any strides, any element types, rows that are looked up. CUDA cores multiply, in float32.
//
// A block takes tiles of 64 x 64 results, a thread 4 x 4 of them. How many rows a group has is read
// here: a block goes through the groups to find that of its tile, and writes rows of it alone.
#pragma once

#include "kernels/abi.h"
#include "kernels/common/element.cuh"
#include "kernels/common/integers.cuh"
#include "kernels/common/overlap.cuh"

namespace epifuse::grouped {

constexpr int kTile = 64, kDepth = 16, kEach = 4;
constexpr int kThreads = abi::kGroupedThreads;
constexpr int kAcross = kTile / kEach;
static_assert(kAcross * kAcross == kThreads && kTile * kDepth % kThreads == 0);

// The rows of one group, among those of the product or of the group's own matrix.
struct Rows {
  long long first, end;
};

__device__ __forceinline__ Rows rows_of(const abi::GroupedParams& p, int group) {
  const long long end = within(integer_at(p.groups, group), p.m);
  if (p.is_padded || group == 0) return {0, end};
  return {within(integer_at(p.groups, group - 1), p.m), end};
}

template <class Element>
__device__ __forceinline__ float load(const abi::Matrix& x, int group, long long row,
                                      long long col) {
  const auto* data = static_cast<const typename Element::Storage*>(x.data);
  return Element::load(data[group * x.batch.inner + row * x.row_stride + col * x.col_stride]);
}

// One tile: results from (row, col) on.
template <class A, class B, class D>
__device__ __forceinline__ void multiply(const abi::GroupedParams& p, int group, long long row,
                                         long long end, long long col) {
  __shared__ float a[kDepth][kTile + 1], b[kDepth][kTile + 1];
  const int thread = static_cast<int>(threadIdx.x);
  const int down = thread / kAcross * kEach, across = thread % kAcross * kEach;
  float sums[kEach][kEach] = {};
  for (long long k = 0; k < p.k; k += kDepth) {
    __syncthreads();  // the step before has been read
#pragma unroll
    for (int i = thread; i < kTile * kDepth; i += kThreads) {
      const int depth = i % kDepth, at = i / kDepth;
      const bool has_k = k + depth < p.k;
      long long from = row + at;
      if (p.looks_up && from < end) from = row_to_read(p.rows_of_a, from);
      a[depth][at] = has_k && row + at < end ? load<A>(p.a, group, from, k + depth) : 0.0f;
      b[depth][at] = has_k && col + at < p.n ? load<B>(p.b, group, k + depth, col + at) : 0.0f;
    }
    __syncthreads();
#pragma unroll
    for (int depth = 0; depth < kDepth; ++depth) {
#pragma unroll
      for (int i = 0; i < kEach; ++i) {
#pragma unroll
        for (int j = 0; j < kEach; ++j) {
          sums[i][j] = fmaf(a[depth][down + i], b[depth][across + j], sums[i][j]);
        }
      }
    }
  }
  auto* d = static_cast<typename D::Storage*>(p.d.data) + group * p.d.batch.inner;
  for (int i = 0; i < kEach; ++i) {
    for (int j = 0; j < kEach; ++j) {
      const long long r = row + down + i, c = col + across + j;
      if (r < end && c < p.n) d[r * p.d.row_stride + c * p.d.col_stride] = D::store(sums[i][j]);
    }
  }
}

template <class A, class B, class D>
__device__ __forceinline__ void product(const abi::GroupedParams& p) {
  await_previous_kernel();
  const long long columns = (p.n + kTile - 1) / kTile;
  int group = 0;
  long long first_tile = 0;  // of the group
  for (long long tile = blockIdx.x; group < p.groups.num_rows;) {
    const Rows rows = rows_of(p, group);
    const long long count = rows.end > rows.first ? rows.end - rows.first : 0;
    const long long tiles = (count + kTile - 1) / kTile * columns;
    if (tile >= first_tile + tiles) {
      first_tile += tiles;
      ++group;
      continue;
    }
    const long long in_group = tile - first_tile;
    multiply<A, B, D>(p, group, rows.first + in_group / columns * kTile, rows.end,
                      in_group % columns * kTile);
    tile += gridDim.x;
  }
}

}  // namespace epifuse::grouped
