// The product of each group along K, on tensors that no faster kernel takes: a group's part of K is
// a product of its own, which kernels/common/grouped.cuh multiplies tile by tile.
#pragma once

#include "kernels/common/grouped.cuh"

namespace epifuse::grouped {

template <class Element>
__device__ __forceinline__ void advance(abi::Matrix& x, long long elements) {
  x.data = static_cast<typename Element::Storage*>(x.data) + elements;
}

template <class A, class B, class D>
__device__ __forceinline__ void product_by_k(const abi::GroupedParams& p) {
  await_previous_kernel();
  const long long columns = (p.n + kTile - 1) / kTile;
  const long long tiles = (p.m + kTile - 1) / kTile * columns;
  for (long long tile = blockIdx.x; tile < tiles * p.groups.num_rows; tile += gridDim.x) {
    const auto group = static_cast<int>(tile / tiles);
    const long long first = group == 0 ? 0 : within(integer_at(p.groups, group - 1), p.k);
    const long long end = within(integer_at(p.groups, group), p.k);
    abi::GroupedParams of_group = p;
    of_group.k = end - first;
    advance<A>(of_group.a, first * p.a.col_stride);
    advance<B>(of_group.b, first * p.b.row_stride);
    const long long in_group = tile % tiles;
    multiply<A, B, D>(of_group, group, in_group / columns * kTile, p.m, in_group % columns * kTile);
  }
}

}  // namespace epifuse::grouped
