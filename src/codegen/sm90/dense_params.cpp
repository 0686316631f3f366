// How much of the parameter block in kernels/abi.h a kernel of the Hopper GEMM takes.
#include <algorithm>
#include <cstddef>

#include "codegen/sm90/dense.h"
#include "kernels/abi.h"

namespace epifuse::codegen::sm90 {
namespace {

using abi::GemmParams;

// Behind the last byte that an epilogue's operand takes.
std::size_t end_of(const Place& place, const Config& config, const Variant& variant) {
  const bool is_full = place.staging == Staging::chunks;
  const unsigned by_hand = place.list == List::tiles ? variant.plain_loads : variant.plain_stores;
  const bool has_entry =
      !is_full || by_hand != 0 || (place.list == List::results && config.grouped);
  std::size_t end = has_entry ? place.end() : 0;
  if (is_full) {
    const bool cuts = place.list == List::results && cut_columns(config) != 0;
    end = std::max(end, (cuts ? place.cut_map_offset : place.map_offset) + sizeof(abi::TensorMap));
  }
  if (place.is_indexed) end = std::max(end, place.integers_offset + sizeof(abi::Integers));
  return end;
}

}  // namespace

std::size_t params_bytes(const EpilogueLayout& layout, const Config& config,
                         const Variant& variant) {
  if (variant.is_shifted()) return sizeof(abi::ShiftedGemmParams);
  if (config.problems) return sizeof(GemmParams);  // each problem has one
  std::size_t end = offsetof(GemmParams, rows);
  const auto reach = [&](bool is_used, std::size_t offset, std::size_t bytes) {
    if (is_used) end = std::max(end, offset + bytes);
  };
  reach(config.two_widths || has_short_tiles(config), offsetof(GemmParams, fewer_rows),
        sizeof(abi::TensorMap));
  reach(config.products > 1, offsetof(GemmParams, second_b), sizeof(abi::TensorMap));
  reach(config.grouped, offsetof(GemmParams, groups), sizeof(abi::Integers));
  reach(config.gathers, offsetof(GemmParams, rows_of_a), sizeof(abi::Integers));
  for (const Place& place : layout.loads()) end = std::max(end, end_of(place, config, variant));
  for (const Place& place : layout.stores()) end = std::max(end, end_of(place, config, variant));
  constexpr std::size_t kAlignment = alignof(GemmParams);
  return (end + kAlignment - 1) / kAlignment * kAlignment;
}

}  // namespace epifuse::codegen::sm90
