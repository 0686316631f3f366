// Sizes of products that share a measured choice.
#include "tune/shape_class.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>

namespace epifuse::tune {
namespace {

constexpr std::int64_t kRowsOfATile = 64;
constexpr std::int64_t kPartsOfAPower = 32;
constexpr std::int64_t kMostRows = std::int64_t{1} << 40;  // more are no sizes of tensors

}  // namespace

codegen::GemmSizes shape_class(const codegen::GemmSizes& sizes) {
  codegen::GemmSizes out = sizes;
  if (sizes.m <= 0 || sizes.m > kMostRows) return out;
  const auto rows = static_cast<std::uint64_t>(sizes.m);
  if (sizes.m <= kRowsOfATile) {
    out.m = static_cast<std::int64_t>(std::bit_ceil(rows));
    return out;
  }
  const auto below = static_cast<std::int64_t>(std::bit_floor(rows - 1));
  const std::int64_t unit = std::max(kRowsOfATile, below / kPartsOfAPower);
  out.m = (sizes.m + unit - 1) / unit * unit;
  return out;
}

std::string class_text(const codegen::GemmSizes& sizes) {
  const codegen::GemmSizes shape = shape_class(sizes);
  return fmt::format("{} {} {} {} {}", shape.batch, shape.m, shape.n, shape.k, shape.groups);
}

}  // namespace epifuse::tune
