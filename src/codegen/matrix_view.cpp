#include "codegen/matrix_view.h"

#include <fmt/format.h>

namespace epifuse::codegen {
namespace {

const void* first_element(const BoundTensor& tensor, DType dtype) {
  return static_cast<const char*>(tensor.data) +
         tensor.layout.offset * static_cast<std::int64_t>(size_bytes(dtype));
}

constexpr std::int64_t kTmaAlignment = 16;

}  // namespace

std::optional<MatrixView> as_matrix(const BoundTensor& tensor, DType dtype) {
  const ir::Layout& layout = tensor.layout;
  MatrixView view;
  view.data = first_element(tensor, dtype);
  if (layout.shape.empty()) return view;
  view.cols = layout.shape.back();
  view.col_stride = view.cols == 1 ? 1 : layout.strides.back();
  bool found = false;
  for (std::size_t i = layout.shape.size() - 1; i-- > 0;) {
    if (layout.shape[i] != 1) {
      if (found && layout.strides[i] != view.row_stride * view.rows) return std::nullopt;
      if (!found) view.row_stride = layout.strides[i];
      found = true;
    }
    view.rows *= layout.shape[i];
  }
  return view;
}

std::optional<plan::WhyNot> why_not_tma(const std::optional<MatrixView>& view, DType dtype,
                                        std::string_view name) {
  const auto bytes = static_cast<std::int64_t>(size_bytes(dtype));
  if (!view) {
    return plan::WhyNot{"uneven_rows",
                        fmt::format("the rows of {} are not evenly spaced in memory.", name)};
  }
  if (view->col_stride != 1) {
    return plan::WhyNot{"strided_columns",
                        fmt::format("neighbouring columns of {} are {} elements apart, and TMA "
                                    "reads contiguous rows.",
                                    name, view->col_stride)};
  }
  if (reinterpret_cast<std::uintptr_t>(view->data) % kTmaAlignment != 0) {
    return plan::WhyNot{"unaligned_base",
                        fmt::format("{} does not start at a multiple of {} bytes, which TMA needs.",
                                    name, kTmaAlignment)};
  }
  if (view->rows > 1 && (view->row_stride <= 0 || view->row_stride * bytes % kTmaAlignment != 0)) {
    return plan::WhyNot{"unaligned_rows",
                        fmt::format("rows of {} are {} bytes apart, and TMA needs a positive "
                                    "multiple of {}.",
                                    name, view->row_stride * bytes, kTmaAlignment)};
  }
  return std::nullopt;
}

}  // namespace epifuse::codegen
