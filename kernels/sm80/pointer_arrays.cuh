// Describes problems for the GEMM whose threads copy operands themselves: of each matrix the
// address and the strides. Rows must start where as many bytes can be moved at once as the kernel
// does, and those of both weights of a gate be equally far apart; other problems are done by hand.
#pragma once

#include "kernels/common/pointer_arrays.cuh"

namespace epifuse::sm80 {

class CopyDescriber : public pointer_arrays::Describer {
  using View = pointer_arrays::View;
  static constexpr long long kVector = 4;
  static constexpr long long kMost = 1ll << 29;  // kernels count elements of two products in an int

 public:
  using Describer::Describer;

  // x[m, k] or x[n, k], whose elements have kBytes: as the matrix at `field` of the block; that of
  // b comes before that of second_b. A single row has no stride and nothing is read of no products:
  // threads without a row still have an address, which is to be a multiple of what is copied at
  // once.
  template <int kBytes, bool kIsKMajor, int kAlignment>
  __device__ __forceinline__ void operand(abi::Matrix abi::CopiedGemmParams::*field,
                                          const View& x) {
    const bool is_there = x.rows > 0 && x.cols > 0;
    const View rows = kIsKMajor ? x : pointer_arrays::transposed(x);
    if (is_there && !pointer_arrays::has_rows_at<kBytes>(kAlignment, rows)) suits_ = false;
    void* const data = is_there ? static_cast<void*>(x.data) : &out_;
    const long long stride = is_there && rows.rows > 1 ? rows.row_stride : 0;
    out_.product.*field = {data, kIsKMajor ? stride : 1, kIsKMajor ? 1 : stride, {}};
    if (field != &abi::CopiedGemmParams::second_b) return;
    const abi::Matrix& b = out_.product.b;
    if ((kIsKMajor ? b.row_stride : b.col_stride) != stride) suits_ = false;
  }

  // A full-size load or result, of which several elements are moved at once; ..
  template <int kBytes>
  __device__ __forceinline__ void vectors(abi::Matrix& out, const View& x) {
    if (x.rows > 0 && x.cols > 0 && !pointer_arrays::has_rows_at<kBytes>(kVector * kBytes, x)) {
      suits_ = false;
    }
    out = pointer_arrays::matrix(x);
  }
  // .. each alone.
  __device__ __forceinline__ void elements(abi::Matrix& out, const View& x) {
    out = pointer_arrays::matrix(x);
  }

  // The last call.
  __device__ __forceinline__ void finish(long long m, long long n, long long k) {
    finish_sizes(m, n, k, kMost);
  }
};

}  // namespace epifuse::sm80
