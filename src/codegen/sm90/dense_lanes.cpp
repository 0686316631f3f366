// What threads of the Hopper GEMM load and store of full operands and results themselves.
#include <algorithm>
#include <bit>

#include "codegen/sm90/dense.h"

namespace epifuse::codegen::sm90 {

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
