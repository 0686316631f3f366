// A bound matrix product on strided memory, and the form of it that a vendor GEMM can take.
#pragma once

#include <compare>
#include <cstdint>
#include <optional>
#include <vector>

#include "codegen/bound.h"
#include "plan/plan.h"

namespace epifuse::cuda {

// x[i, j] = data[i * row_stride + j * col_stride], strides in elements.
struct StridedMatrix {
  void* data = nullptr;
  DType dtype = DType::bf16;
  std::int64_t row_stride = 0, col_stride = 0;
  bool operator==(const StridedMatrix&) const = default;
};

struct BatchDim {
  std::int64_t size = 1;
  std::int64_t a_stride = 0, b_stride = 0, d_stride = 0;
  auto operator<=>(const BatchDim&) const = default;
};

// D[batch.., m, n] = A[batch.., m, k] * B[batch.., k, n]
struct Product {
  std::int64_t m = 0, n = 0, k = 0;
  StridedMatrix a, b, d;
  bool rounds_partial_sums = false;  // may: the fastest the library has, for baselines
  std::vector<BatchDim> batch;       // outermost first
  bool tf32 = false;                 // float32 operands may be multiplied so
  bool promoted = false;             // sums of 8-bit floats are
  bool operator==(const Product&) const = default;
};

// The product of a bare step: its only store takes the accumulator.
Product product_of(const plan::FusedGemm& step, const codegen::Bound& bound);

// The same product with as few batch dims as possible: dims that walk jointly are merged, those
// that B does not vary along become rows. Row-major D: a column-major one is computed as D^T = B^T
// * A^T.
Product simplify(Product product);

// How a vendor library names a matrix: which dim is contiguous, and the step along the other.
struct Leading {
  bool row_major = true;
  std::int64_t stride = 0;
  auto operator<=>(const Leading&) const = default;
};
// Empty when neither dim is contiguous, or the matrix overlaps itself (a stride-0 view).
std::optional<Leading> leading(const StridedMatrix& matrix, std::int64_t rows, std::int64_t cols);

// What a framework multiplies that pads operands whose rows begin off 16-byte boundaries: a product
// of dense matrices, of which those sizes are rounded up that rows have the length of. Its data is
// that of the addressable `product`. The same sizes where nothing is to be padded.
Product padded(Product product);
// Elements of a matrix of such a product with all its batches, which it has along `stride`.
std::int64_t num_elements(const Product& product, std::int64_t rows, std::int64_t cols,
                          std::int64_t BatchDim::*stride);

// Whether a vendor GEMM can write `result` from such operands.
bool has_direct_result(DType operand, DType result);
// Whether it takes 8-bit floats as they are, on GPUs with such tensor cores: both e4m3, along K, in
// rows of 16 bytes, with a result of 16 or 32 bits.
bool takes_eight_bits(const Product& product);

}  // namespace epifuse::cuda
