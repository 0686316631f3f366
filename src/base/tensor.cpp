// Shapes and strides of tensor views.
#include "epifuse/tensor.h"

namespace epifuse {

std::int64_t TensorView::num_elements() const {
  std::int64_t count = 1;
  for (std::int64_t size : shape) count *= size;
  return count;
}

std::vector<std::int64_t> TensorView::dense_strides(const std::vector<std::int64_t>& shape) {
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
