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

constexpr std::array<DTypeInfo, 9> kDTypes = {{
    {DType::f32, "f32", 4},
    {DType::bf16, "bf16", 2},
    {DType::f16, "f16", 2},
    {DType::e4m3, "e4m3", 1},
    {DType::e5m2, "e5m2", 1},
    {DType::boolean, "bool", 1},
    {DType::i32, "i32", 4},
    {DType::i64, "i64", 8},
    {DType::i8, "i8", 1},
}};

constexpr auto kAllDTypes = [] {
  std::array<DType, kDTypes.size()> all{};
  for (std::size_t i = 0; i < all.size(); ++i) all[i] = kDTypes[i].dtype;
  return all;
}();

const DTypeInfo& info(DType dtype) { return kDTypes[static_cast<std::size_t>(dtype)]; }

}  // namespace

std::span<const DType> all_dtypes() { return kAllDTypes; }

std::string_view name(DType dtype) { return info(dtype).name; }

std::optional<DType> dtype_from_name(std::string_view word) {
  for (const DTypeInfo& row : kDTypes) {
    if (row.name == word) return row.dtype;
  }
  return std::nullopt;
}

std::size_t size_bytes(DType dtype) { return info(dtype).size_bytes; }

bool is_float(DType dtype) { return dtype < DType::boolean; }

bool is_fp8(DType dtype) { return dtype == DType::e4m3 || dtype == DType::e5m2; }

bool is_narrow(DType dtype) { return is_fp8(dtype) || dtype == DType::i8; }

bool is_integer(DType dtype) { return dtype == DType::i32 || dtype == DType::i64; }

}  // namespace epifuse
