// The sizes of one run of a product.
#pragma once

#include <cstdint>

#include "codegen/bound.h"
#include "plan/plan.h"

namespace epifuse::codegen {

struct GemmSizes {
  std::int64_t batch = 1, m = 0, n = 0, k = 0;
  std::int64_t groups = 0;  // that the m rows belong to, nobody knows how many to which; 0: none
  // From one row of A, of B in memory to the next, which is a row of K where it runs along M or N;
  // 0: the operand is dense.
  std::int64_t row_bytes_a = 0, row_bytes_b = 0;
  bool is_empty() const { return batch == 0 || m == 0 || n == 0; }
};

// Groups as products of equal sizes, which is what can be expected of them; others as they are.
GemmSizes even_groups(GemmSizes sizes);

// The sizes with the rows of the operands as they are bound.
GemmSizes with_rows(GemmSizes sizes, const plan::GemmDesc& gemm, const Bound& bound);

// Of D^T = B^T * A^T.
GemmSizes exchanged(GemmSizes sizes);

}  // namespace epifuse::codegen
