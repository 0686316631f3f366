// Describes each of many problems for the GEMM of a family, from arrays in memory: sizes,
// addresses, and tensor maps of every operand, full-size load and result. A block does one problem.
//
// A map is the usual one, which has the boxes, with another address, sizes and stride. A problem
// that no maps can address, or that has more tiles than can be numbered, is described for
// kernels/common/pointer_arrays_by_hand.cuh.
#pragma once

#include "kernels/abi.h"
#include "kernels/common/element.cuh"
#include "kernels/common/tensor_maps.cuh"

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

constexpr long long kAlignment = 16;  // of what a map addresses
constexpr long long kMostRows = 1ll << 31, kMostBytes = 1ll << 39;

// Whether a map can have these elements.
template <int kBytes>
__device__ __forceinline__ bool suits_map(const View& x) {
  const bool has_rows = x.rows <= 1 || (x.row_stride > 0 && x.row_stride * kBytes < kMostBytes &&
                                        x.row_stride * kBytes % kAlignment == 0);
  return has_rows && (x.col_stride == 1 || x.cols <= 1) && x.rows < kMostRows &&
         x.cols < kMostRows && reinterpret_cast<unsigned long long>(x.data) % kAlignment == 0;
}

// Writes the description of one problem. One thread does, but for `begin`.
class Describer {
 public:
  __device__ __forceinline__ Describer(const abi::DescribeParams& p, abi::TensorMap& shared)
      : p_(p), usual_(p.usual), out_(p.problems[blockIdx.x]), map_(shared) {}

  // All threads: the block as it usually is.
  __device__ __forceinline__ void begin() {
    static_assert(sizeof(abi::GemmParams) % sizeof(uint4) == 0);
    const auto* from = reinterpret_cast<const uint4*>(&usual_);
    auto* to = reinterpret_cast<uint4*>(&out_.gemm);
    constexpr unsigned kCount = sizeof(abi::GemmParams) / sizeof(uint4);
    for (unsigned i = threadIdx.x; i < kCount; i += abi::kDescribeThreads) to[i] = from[i];
  }

  // `x` as the map at `field` of the block, whose elements have kBytes.
  template <int kBytes>
  __device__ __forceinline__ void map(abi::TensorMap abi::GemmParams::*field, const View& x) {
    write<kBytes>(out_.gemm.*field, usual_.*field, x);
  }
  template <int kBytes>
  __device__ __forceinline__ void full_size_map(abi::TensorMap abi::FullSizeMaps::*field, int i,
                                                const View& x) {
    write<kBytes>(out_.gemm.full[i].*field, usual_.full[i].*field, x);
  }
  // An operand of no products: of a map of one element only what lies outside is read. The element
  // is in memory all the same: TMA meets an illegal address otherwise.
  template <int kBytes>
  __device__ __forceinline__ void operand(abi::TensorMap abi::GemmParams::*field, const View& x) {
    if (x.rows > 0 && x.cols > 0) return map<kBytes>(field, x);
    replace(usual_.*field, out_.gemm.*field, reinterpret_cast<const char*>(&out_), 1, 1,
            kAlignment);
  }

  __device__ __forceinline__ abi::GemmParams& gemm() { return out_.gemm; }
  __device__ __forceinline__ abi::ByHand& by_hand() { return out_.by_hand; }

  // The last call. `step`: elements of K that come to a stage.
  __device__ __forceinline__ void finish(long long m, long long n, long long k, int step) {
    constexpr long long kMostTiles = 1 << 21;  // what the kernel's float division can number
    const bool exists = m > 0 && n > 0 && k >= 0;
    const bool fits = m < kMostRows && n < kMostRows && k < kMostRows;
    const long long tiles =
        (m + p_.tile_rows - 1) / p_.tile_rows * ((n + p_.tile_columns - 1) / p_.tile_columns);
    const bool has_tiles = exists && suits_ && fits && tiles < kMostTiles;
    p_.tiles[blockIdx.x] = {has_tiles ? static_cast<int>(tiles) : 0, exists && !has_tiles};
    out_.by_hand.m = m;
    out_.by_hand.n = n;
    out_.by_hand.k = k;
    out_.gemm.m = static_cast<int>(m);
    out_.gemm.n = static_cast<int>(n);
    out_.gemm.k = static_cast<int>(k);
    out_.gemm.first_k = k == 0 ? step : 0;
    release_maps();
  }

 private:
  template <int kBytes>
  __device__ __forceinline__ void write(abi::TensorMap& out, const abi::TensorMap& usual,
                                        const View& x) {
    if (x.rows <= 0 || x.cols <= 0) return;  // without results: no tile reads it
    if (!suits_map<kBytes>(x)) {
      suits_ = false;
      return;
    }
    // A single row has no stride; any legal one will do.
    const long long legal = (x.cols * kBytes + kAlignment - 1) / kAlignment * kAlignment;
    replace(usual, out, x.data, x.rows, x.cols, x.rows > 1 ? x.row_stride * kBytes : legal);
  }

  // The usual map with another address, sizes, and bytes from row to row.
  __device__ __forceinline__ void replace(const abi::TensorMap& usual, abi::TensorMap& out,
                                          const char* data, long long rows, long long cols,
                                          long long row_bytes) {
    map_ = usual;
    replace_address(map_, data);
    replace_sizes(map_, static_cast<unsigned>(rows), static_cast<unsigned>(cols), row_bytes);
    out = map_;
  }

  const abi::DescribeParams& p_;
  const abi::GemmParams& usual_;
  abi::Problem& out_;
  abi::TensorMap& map_;
  bool suits_ = true;
};

__device__ __forceinline__ abi::Matrix matrix(const View& x) {
  return {x.data, x.row_stride, x.col_stride, {}};
}
// Of a row of values, x[n], or a column, x[m].
__device__ __forceinline__ abi::Vector row(const View& x) { return {x.data, x.col_stride, {}}; }
__device__ __forceinline__ abi::Vector column(const View& x) { return {x.data, x.row_stride, {}}; }

// Of a generated kernel: Problem::describe(sizes, tensors, describer), with kNumSizes and
// kNumTensors.
template <class Problem>
__device__ __forceinline__ void describe(const abi::DescribeParams& p) {
  alignas(128) __shared__ abi::TensorMap map;
  __shared__ long long sizes[Problem::kNumSizes + 1];  // there may be none
  __shared__ Tensor tensors[Problem::kNumTensors];
  const int thread = static_cast<int>(threadIdx.x);
  const long long problem = blockIdx.x;
  Describer describer(p, map);
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
