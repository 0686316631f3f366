// What threads of the Hopper GEMM load and store of full operands and results themselves.
#include <algorithm>
#include <bit>
#include <cstdint>
#include <numeric>

#include "codegen/sm90/dense.h"

namespace epifuse::codegen::sm90 {
namespace {

// Neighbouring elements of a row, up to 8 bytes of them, that may be moved at once: every row
// begins at a multiple of as many, and ends at one. None where neighbours of a row are apart.
int moved_at_once(const FullSize& full) {
  constexpr std::int64_t kMostBytes = 8;
  const MatrixView& view = full.view;
  if (view.col_stride != 1 && view.cols > 1) return 0;
  const auto bytes = static_cast<std::int64_t>(size_bytes(full.dtype));
  const bool has_rows = view.rows > 1 || full.place.is_indexed;
  std::int64_t step =
      std::gcd(kMostBytes,
               static_cast<std::int64_t>(reinterpret_cast<std::uintptr_t>(view.data) % kMostBytes));
  for (const std::int64_t elements :
       {view.cols, has_rows ? view.row_stride : 0, view.inner_stride, view.outer_stride}) {
    step = std::gcd(step, elements * bytes);
  }
  return static_cast<int>(std::max<std::int64_t>(step / bytes, 1));
}

// Whether results that warps copy are worth more of their instructions, so that memory reads fewer
// sectors that are written in part: where its time counts rather than that of the products. It was
// measured on an H100 (docs/gotchas-hopper.md).
bool wants_whole_sectors(const std::vector<FullSize>& stores, std::int64_t k, const Variant& out) {
  constexpr std::int64_t kMostOfSingle = 640, kMostOfUnits = 1280;  // of K, for each result
  constexpr int kUnitBytes = 4;
  const auto copied = std::ranges::count_if(stores, [&](const FullSize& full) {
    return (out.copied_stores >> full.place.index & 1) != 0 && !full.place.is_indexed;
  });
  const bool are_units = std::ranges::all_of(stores, [&](const FullSize& full) {
    return out.copied_at_once * static_cast<int>(size_bytes(full.dtype)) >= kUnitBytes;
  });
  return copied > 0 && k <= (are_units ? kMostOfUnits : kMostOfSingle) * copied;
}

}  // namespace

void set_moved(const std::vector<FullSize>& loads, const std::vector<FullSize>& stores,
               std::int64_t k, Variant& out) {
  for (const FullSize& full : loads) {
    const bool is_by_hand = (out.non_tma_loads >> full.place.index & 1) != 0;
    if (!is_by_hand || full.place.staging != Staging::chunks) continue;  // bytes are read alone
    const int elements = moved_at_once(full);
    if (elements > 0) out.row_loads |= 1u << full.place.index;
    if (elements > 1) out.paired_loads |= 1u << full.place.index;
  }
  for (const FullSize& full : stores) {
    const bool is_by_hand = (out.non_tma_stores >> full.place.index & 1) != 0;
    const int elements = is_by_hand ? moved_at_once(full) : 0;
    if (elements == 0) continue;
    out.copied_at_once = out.copied_stores == 0 ? elements : std::min(out.copied_at_once, elements);
    out.copied_stores |= 1u << full.place.index;
  }
  out.whole_sectors = wants_whole_sectors(stores, k, out);
}

void set_lanes(const EpilogueLayout& layout, const Variant& variant, Config& config) {
  constexpr int kElements = kChunkColumns * 64 / 128;  // of a thread
  const unsigned loads = variant.non_tma_loads & ~layout.unstaged(List::tiles);
  const unsigned stores = variant.non_tma_stores & ~layout.unstaged(List::results);
  const int pairs = std::popcount(loads & variant.row_loads & variant.paired_loads);
  const int copies = std::popcount(stores & variant.copied_stores);
  // Single elements that leave as whole sectors are moved in pieces.
  const int at_once = std::max(variant.copied_at_once, config.whole_sectors ? 2 : 1);
  const auto narrow = [](int count) { return static_cast<std::int16_t>(count); };
  config.lane_loads = narrow(kElements * std::popcount(loads) - kElements / 2 * pairs);
  config.lane_stores =
      narrow(kElements * (std::popcount(stores) - copies) + kElements / at_once * copies);
}

}  // namespace epifuse::codegen::sm90
