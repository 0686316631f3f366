#include "capi/c_tensors.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/strided.h"
#include "epifuse/error.h"
#include "ir/text.h"

namespace epifuse {

void check_form(std::string_view role, std::string_view name, const ir::TensorType& type,
                const EpifuseTensor& tensor, Needs needs) {
  const auto fail = [&](const std::string& came) {
    throw ArgumentError(
        fmt::format("{} '{}' is declared {}: got {}", role, name, ir::print(type), came));
  };
  if (static_cast<int>(tensor.dtype) != static_cast<int>(type.dtype)) {
    const bool known = tensor.dtype >= 0 && tensor.dtype < std::ssize(all_dtypes());
    fail(known ? fmt::format("{} elements", epifuse::name(static_cast<DType>(tensor.dtype)))
               : fmt::format("dtype {}, which is none", static_cast<int>(tensor.dtype)));
  }
  if (tensor.rank != std::ssize(type.shape)) fail(fmt::format("a tensor of {} dims", tensor.rank));
  if (tensor.rank == 0) return;
  if (tensor.sizes == nullptr) fail("a null pointer to its sizes");
  if (needs == Needs::strides && tensor.strides == nullptr) fail("a null pointer to its strides");
}

void check_bounds(std::string_view role, std::string_view name, const ir::TensorType& type,
                  const EpifuseTensor& tensor) {
  const auto sizes = sizes_of(tensor);
  const std::span strides(tensor.strides, sizes.size());
  if (checked_count(sizes) && checked_reach(sizes, strides)) return;
  throw ArgumentError(fmt::format(
      "{} '{}' is declared {}: got [{}] with strides [{}], expected at most 2^40 elements, and as "
      "many from the first to the last",
      role, name, ir::print(type), fmt::join(sizes, ", "), fmt::join(strides, ", ")));
}

}  // namespace epifuse
