// Checks of the tensors that come through the C interface.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "epifuse/c.h"
#include "ir/graph.h"

namespace epifuse {

enum class Needs : std::uint8_t { sizes, strides };  // what of a tensor is read

// Throws ArgumentError for another dtype or rank than declared, and where the sizes, or strides
// that are needed, are not there.
void check_form(std::string_view role, std::string_view name, const ir::TensorType& type,
                const EpifuseTensor& tensor, Needs needs);

// The same where the tensor has or reaches over more elements than kMaxElements.
void check_bounds(std::string_view role, std::string_view name, const ir::TensorType& type,
                  const EpifuseTensor& tensor);

inline std::span<const std::int64_t> sizes_of(const EpifuseTensor& tensor) {
  return {tensor.sizes, static_cast<std::size_t>(tensor.rank)};
}

}  // namespace epifuse
