// Copies matrices of any strides and dtype into dense rows that oneDNN can multiply.
#pragma once

#include <cstdint>

#include "epifuse/dtype.h"

namespace epifuse::cpu {

struct Matrix {
  const char* data = nullptr;
  DType dtype = DType::f32;
  std::int64_t num_rows = 0, num_columns = 0;
  std::int64_t row_stride = 0, column_stride = 0;  // in elements

  const char* at(std::int64_t row, std::int64_t column) const {
    return data + (row * row_stride + column * column_stride) *
                      static_cast<std::int64_t>(size_bytes(dtype));
  }
};

// out[row * num_columns + column] = source[row, column]; `to` is the source's dtype or f32.
void pack(const Matrix& source, DType to, char* out);
// The same with rows `row_stride` elements apart, which is num_columns or more: zeros follow a row.
void pack(const Matrix& source, DType to, char* out, std::int64_t row_stride);

}  // namespace epifuse::cpu
