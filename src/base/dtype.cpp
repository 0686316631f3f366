// The table of element types.
#include "epifuse/dtype.h"

#include <array>

namespace epifuse {
namespace {

struct DTypeInfo {
  DType dtype;
  std::string_view name;
  std::size_t size_bytes;
};

constexpr std::array<DTypeInfo, 6> kDTypes = {{
    {DType::f32, "f32", 4},
    {DType::bf16, "bf16", 2},
    {DType::f16, "f16", 2},
    {DType::e4m3, "e4m3", 1},
    {DType::e5m2, "e5m2", 1},
    {DType::boolean, "bool", 1},
}};

const DTypeInfo& info(DType dtype) { return kDTypes[static_cast<std::size_t>(dtype)]; }

}  // namespace

std::string_view name(DType dtype) { return info(dtype).name; }

std::optional<DType> dtype_from_name(std::string_view word) {
  for (const DTypeInfo& row : kDTypes) {
    if (row.name == word) return row.dtype;
  }
  return std::nullopt;
}

std::size_t size_bytes(DType dtype) { return info(dtype).size_bytes; }

bool is_float(DType dtype) { return dtype != DType::boolean; }

}  // namespace epifuse
