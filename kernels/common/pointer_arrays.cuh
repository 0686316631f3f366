// Describes each of many problems for the GEMM of a family, from arrays in memory: sizes, addresses
// and strides of every operand, load and result. A block does one problem.
//
// A problem that the family's kernel cannot address, or that has more tiles than can be numbered,
// is described for kernels/common/pointer_arrays_by_hand.cuh alone.
#pragma once

#include "kernels/abi.h"
#include "kernels/common/element.cuh"

namespace epifuse::pointer_arrays {

// A matrix of one problem, strides in elements.
struct View {
  char* data;
  long long rows, cols, row_stride, col_stride;
};

// Where a tensor of the problem is.
struct Tensor {
  char* data;
  long long given_stride;
  bool is_dense;

  __device__ __forceinline__ long long row_stride(long long dense) const {
    return is_dense ? dense : given_stride;
  }
  template <class Element>
  __device__ __forceinline__ View view(long long offset, long long rows, long long cols,
                                       long long row_stride, long long col_stride) const {
    constexpr long long kBytes = sizeof(typename Element::Storage);
    return {data + offset * kBytes, rows, cols, row_stride, col_stride};
  }
  // Of pairs of elements; offset and row_stride are still in elements. No map suits an odd stride.
  template <class Pair>
  __device__ __forceinline__ View pairs(long long offset, long long rows, long long cols,
                                        long long row_stride, long long col_stride) const {
    constexpr long long kBytes = sizeof(typename Pair::Storage);
    return {data + offset * kBytes / 2, rows, cols, row_stride % 2 == 0 ? row_stride / 2 : 1,
            col_stride};
  }
};

__device__ __forceinline__ View transposed(const View& x) {
  return {x.data, x.cols, x.rows, x.col_stride, x.row_stride};
}

__device__ __forceinline__ abi::Matrix matrix(const View& x) {
  return {x.data, x.row_stride, x.col_stride, {}};
}
// Of a row of values, x[n], or a column, x[m].
__device__ __forceinline__ abi::Vector row(const View& x) { return {x.data, x.col_stride, {}}; }
__device__ __forceinline__ abi::Vector column(const View& x) { return {x.data, x.row_stride, {}}; }

// Whether elements of kBytes are side by side in rows that start at multiples of so many bytes.
template <int kBytes>
__device__ __forceinline__ bool has_rows_at(long long alignment, const View& x) {
  const bool has_rows = x.rows <= 1 || x.row_stride * kBytes % alignment == 0;
  return has_rows && (x.col_stride == 1 || x.cols <= 1) &&
         reinterpret_cast<unsigned long long>(x.data) % alignment == 0;
}

// Writes the description of one problem. One thread does, but for `begin`. What a kernel takes of
// operands and full-size matrices is added by a class of its own.
class Describer {
 public:
  __device__ __forceinline__ explicit Describer(const abi::DescribeParams& p)
      : usual_(p.usual), out_(p.problems[blockIdx.x]), p_(p) {}

  // All threads: the block as it usually is.
  __device__ __forceinline__ void begin() {
    static_assert(sizeof(abi::GemmParams) % sizeof(uint4) == 0);
    const auto* from = reinterpret_cast<const uint4*>(&usual_);
    auto* to = reinterpret_cast<uint4*>(&gemm());
    constexpr unsigned kCount = sizeof(abi::GemmParams) / sizeof(uint4);
    for (unsigned i = threadIdx.x; i < kCount; i += abi::kDescribeThreads) to[i] = from[i];
  }

  __device__ __forceinline__ abi::GemmParams& gemm() { return out_.product.gemm; }
  __device__ __forceinline__ abi::ByHand& by_hand() { return out_.by_hand; }

 protected:
  // The last call. `most`: of each size, that the kernel takes.
  __device__ __forceinline__ void finish_sizes(long long m, long long n, long long k,
                                               long long most) {
    constexpr long long kMostTiles = 1 << 21;  // what a tile scheduler's float division can number
    const bool exists = m > 0 && n > 0 && k >= 0;
    const bool fits = m < most && n < most && k < most;
    const long long tiles =
        (m + p_.tile_rows - 1) / p_.tile_rows * ((n + p_.tile_columns - 1) / p_.tile_columns);
    const bool has_tiles = exists && suits_ && fits && tiles < kMostTiles;
    p_.tiles[blockIdx.x] = {has_tiles ? static_cast<int>(tiles) : 0, exists && !has_tiles};
    out_.by_hand.m = m;
    out_.by_hand.n = n;
    out_.by_hand.k = k;
    gemm().m = static_cast<int>(m);
    gemm().n = static_cast<int>(n);
    gemm().k = static_cast<int>(k);
  }

  const abi::GemmParams& usual_;
  abi::Problem& out_;
  bool suits_ = true;  // the family's kernel

 private:
  const abi::DescribeParams& p_;
};

// Of a generated kernel: Problem::describe(sizes, tensors, describer), with kNumSizes, kNumTensors
// and the class Describer.
template <class Problem>
__device__ __forceinline__ void describe(const abi::DescribeParams& p) {
  __shared__ long long sizes[Problem::kNumSizes + 1];  // there may be none
  __shared__ Tensor tensors[Problem::kNumTensors];
  const int thread = static_cast<int>(threadIdx.x);
  const long long problem = blockIdx.x;
  typename Problem::Describer describer(p);
  describer.begin();
  for (int i = thread; i < Problem::kNumSizes; i += abi::kDescribeThreads) {
    sizes[i] = p.sizes[problem * p.num_sizes + p.size_columns[i]];
  }
  for (int i = thread; i < Problem::kNumTensors; i += abi::kDescribeThreads) {
    const abi::ProblemTensor& from = p.tensors[i];
    const bool is_dense = from.row_strides == nullptr;
    tensors[i] = {static_cast<char*>(const_cast<void*>(from.data[problem])),
                  is_dense ? 0 : from.row_strides[problem], is_dense};
  }
  __syncthreads();
  if (thread == 0) Problem::describe(sizes, tensors, describer);
}

}  // namespace epifuse::pointer_arrays
