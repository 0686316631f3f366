// Describes problems for a GEMM that takes operands, full-size loads and results by tensor maps: a
// map is the usual one, which has the boxes, with another address, sizes and stride.
#pragma once

#include "kernels/common/pointer_arrays.cuh"
#include "kernels/common/tensor_maps.cuh"

namespace epifuse::pointer_arrays {

constexpr long long kAlignment = 16;  // of what a map addresses
constexpr long long kMostRows = 1ll << 31, kMostBytes = 1ll << 39;

// Whether a map can have these elements.
template <int kBytes>
__device__ __forceinline__ bool suits_map(const View& x) {
  const bool has_rows = x.rows <= 1 || (x.row_stride > 0 && x.row_stride * kBytes < kMostBytes);
  return has_rows && has_rows_at<kBytes>(kAlignment, x) && x.rows < kMostRows && x.cols < kMostRows;
}

class MapDescriber : public Describer {
 public:
  using Describer::Describer;

  // `x` as the map at `field` of the block, whose elements have kBytes.
  template <int kBytes>
  __device__ __forceinline__ void map(abi::TensorMap abi::GemmParams::*field, const View& x) {
    write<kBytes>(gemm().*field, usual_.*field, x);
  }
  template <int kBytes>
  __device__ __forceinline__ void full_size_map(abi::TensorMap abi::FullSizeMaps::*field, int i,
                                                const View& x) {
    // A store that ends within what TMA writes at once would write what lies behind, too.
    const bool is_store = field == &abi::FullSizeMaps::store;
    if (is_store && x.rows > 0 && x.cols * kBytes % kAlignment != 0) suits_ = false;
    write<kBytes>(gemm().full[i].*field, usual_.full[i].*field, x);
  }
  // An operand of no products: of a map of one element only what lies outside is read. The element
  // is in memory all the same: TMA meets an illegal address otherwise.
  template <int kBytes>
  __device__ __forceinline__ void operand(abi::TensorMap abi::GemmParams::*field, const View& x) {
    if (x.rows > 0 && x.cols > 0) return map<kBytes>(field, x);
    replace(usual_.*field, gemm().*field, reinterpret_cast<const char*>(&out_), 1, 1, kAlignment);
  }

  // The last call. `step`: elements of K that come to a stage.
  __device__ __forceinline__ void finish(long long m, long long n, long long k, int step) {
    finish_sizes(m, n, k, kMostRows);
    gemm().first_k = k == 0 ? step : 0;
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
    alignas(128) __shared__ abi::TensorMap map;
    map = usual;
    replace_address(map, data);
    replace_sizes(map, static_cast<unsigned>(rows), static_cast<unsigned>(cols), row_bytes);
    out = map;
  }
};

}  // namespace epifuse::pointer_arrays
