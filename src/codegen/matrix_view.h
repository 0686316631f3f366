// A bound tensor seen as one matrix: what tensor maps, row and column vectors need to know.
#pragma once

#include <cstdint>
#include <optional>

#include "codegen/kernel.h"

namespace epifuse::codegen {

// rows x cols elements; element (r, c) is data[r * row_stride + c * col_stride].
struct MatrixView {
  const void* data = nullptr;
  std::int64_t rows = 1, cols = 1, row_stride = 0, col_stride = 1;
};

// The last dim are the columns, all dims before it the rows; empty when the rows do not step
// evenly.
std::optional<MatrixView> as_matrix(const BoundTensor& tensor, DType dtype);

// Whether a tensor map can describe it: columns contiguous, base and row stride multiples of 16
// bytes. Empty when it can.
std::optional<plan::WhyNot> why_not_tma(const std::optional<MatrixView>& view, DType dtype,
                                        std::string_view name);

}  // namespace epifuse::codegen
