// Bound tensors seen as matrices: what tensor maps, row and column vectors need to know.
#pragma once

#include <array>
#include <cstdint>
#include <optional>

#include "codegen/bound.h"
#include "codegen/launch.h"
#include "kernels/abi.h"

namespace epifuse::codegen {

// rows x cols elements of each product of a batch; element (outer, inner, r, c) is
// data[outer * outer_stride + inner * inner_stride + r * row_stride + c * col_stride].
struct MatrixView {
  const void* data = nullptr;
  std::int64_t rows = 1, cols = 1, row_stride = 0, col_stride = 1;
  std::int64_t inner_stride = 0, outer_stride = 0;
};

// The last dim are the columns, all dims before it the rows; empty when the rows do not step
// evenly.
std::optional<MatrixView> as_matrix(const BoundTensor& tensor, DType dtype);

// The same matrix with rows and columns exchanged.
MatrixView transposed(MatrixView view);

// Whether a tensor map can describe it: columns contiguous, base and strides multiples of 16
// bytes. Empty when it can.
std::optional<plan::WhyNot> why_not_tma(const MatrixView& view, DType dtype, std::string_view name);

// The rows j, j + 8, j + 16, .. of a matrix (class j), as a map that starts at the 16-byte boundary
// before row j: element (i, c) of the class is element (i, shift + c) of `view`.
struct RowClass {
  MatrixView view;
  int shift = 0;
};
constexpr int kShiftBytes = 2;  // abi::MisalignedOperand counts shifts in these
// All classes. One without rows is a view of which every element from `shift` on lies outside.
std::array<RowClass, abi::kRowClasses> row_classes(const MatrixView& view, DType dtype);

// Whether tensor maps of its row classes can describe it: columns contiguous, rows wherever their
// elements may start, but for odd bytes. Empty when they can.
std::optional<plan::WhyNot> why_not_row_classes(const MatrixView& view, DType dtype,
                                                std::string_view name);

// All that one product reads and writes, as its kernel sees it.
struct GemmViews {
  std::int64_t batch_outer = 1, batch_inner = 1;
  MatrixView a, b;                 // a[m, k], b[n, k]
  MatrixView second_b;             // where gated: the operand of the second product
  std::vector<MatrixView> loads;   // one for each of the epilogue's; of parameters it means nothing
  std::vector<MatrixView> stores;  // as many as the epilogue's
  std::vector<MatrixView> scales;  // of blocks of K, of each that plan::GemmDesc::scales names
};

// Empty, with the reason in `why`, when a tensor's rows do not step evenly or the batch dims cannot
// be walked as two.
std::optional<GemmViews> gemm_views(const plan::Plan& plan, const plan::FusedGemm& step,
                                    const Bound& bound, plan::WhyNot* why);

// A tensor map of a matrix of every product. Where it goes and its boxes are left to be filled in.
TensorMapRequest map_request(const MatrixView& view, DType dtype, const GemmViews& views);

}  // namespace epifuse::codegen
