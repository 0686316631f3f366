#include "codegen/gemm_sizes.h"

#include <algorithm>
#include <utility>

#include "base/ceil_div.h"

namespace epifuse::codegen {

GemmSizes even_groups(GemmSizes sizes) {
  if (sizes.groups == 0) return sizes;
  sizes.batch = std::max<std::int64_t>(std::min(sizes.groups, sizes.m), 1);
  sizes.m = ceil_div(sizes.m, sizes.batch);
  sizes.groups = 0;
  return sizes;
}

GemmSizes with_rows(GemmSizes sizes, const plan::GemmDesc& gemm, const Bound& bound) {
  const auto row_bytes = [&](const plan::Operand& operand) -> std::int64_t {
    const ir::Layout& layout = bound[operand.value].layout;
    const std::size_t rank = layout.shape.size();
    if (rank < 2) return 0;
    const bool is_last = layout.strides[rank - 1] == 1 || layout.shape[rank - 1] == 1;
    const std::size_t across = is_last ? rank - 2 : rank - 1;
    if (layout.shape[across] == 1) return 0;
    return layout.strides[across] * static_cast<std::int64_t>(size_bytes(operand.dtype));
  };
  sizes.row_bytes_a = row_bytes(gemm.a);
  sizes.row_bytes_b = row_bytes(gemm.b);
  return sizes;
}

GemmSizes exchanged(GemmSizes sizes) {
  std::swap(sizes.m, sizes.n);
  std::swap(sizes.row_bytes_a, sizes.row_bytes_b);
  return sizes;
}

}  // namespace epifuse::codegen
