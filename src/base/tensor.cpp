// Shapes and strides of tensor views.
#include "epifuse/tensor.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "base/strided.h"
#include "epifuse/error.h"

namespace epifuse {
namespace {

// The product of the sizes that are not 0.
std::int64_t count_or_fail(const std::vector<std::int64_t>& shape) {
  if (const auto count = checked_count(shape)) return *count;
  throw ArgumentError(
      fmt::format("expected a tensor of sizes from 0 on and at most 2^40 elements, got [{}]",
                  fmt::join(shape, ", ")));
}

}  // namespace

std::int64_t TensorView::num_elements() const {
  const std::int64_t count = count_or_fail(shape);
  return std::ranges::find(shape, 0) == shape.end() ? count : 0;
}

std::vector<std::int64_t> TensorView::dense_strides(const std::vector<std::int64_t>& shape) {
  count_or_fail(shape);
  std::vector<std::int64_t> strides(shape.size());
  std::int64_t stride = 1;
  for (std::size_t d = shape.size(); d-- > 0;) {
    strides[d] = stride;
    stride *= shape[d];
  }
  return strides;
}

std::vector<std::int64_t> TensorView::strides_or_dense() const {
  return strides.empty() ? dense_strides(shape) : strides;
}

}  // namespace epifuse
