// Products whose heads are read by halves, such as queries and keys with rotary positions.
#include "partition/fusion_heads.h"

#include <algorithm>
#include <numeric>
#include <utility>

namespace epifuse {
namespace {

// Beside one launch for queries, keys and values (docs/gotchas-pytorch.md).
constexpr std::int64_t kMostRowsOfOneLaunch = 64;

bool does(const FusedKernel& kernel, const passes::NamedWorkOnHeads& work) {
  return kernel.outputs.size() == 1 && kernel.outputs.front().value == work.result &&
         std::ranges::find(kernel.values, work.product) != kernel.values.end();
}

// The rows of all dims before heads, where sizes are known; and whether a framework can hand them
// over in that shape, of which one size may be symbolic.
struct Rows {
  std::int64_t count = 1;
  int num_symbolic = 0;
  bool is_known = true;
};

Rows rows_of(const ir::Shape& split, const Sizes& likely) {
  Rows rows;
  for (std::size_t d = 0; d + 2 < split.size(); ++d) {
    if (split[d].constant()) {
      rows.count *= *split[d].constant();
      continue;
    }
    ++rows.num_symbolic;
    const auto is_likely = [&](const std::string& symbol) { return likely.contains(symbol); };
    rows.is_known = rows.is_known && std::ranges::all_of(split[d].symbols(), is_likely);
    if (rows.is_known) rows.count *= split[d].eval(likely);
  }
  return rows;
}

// The dims of [.., H, S, D] as [.., S, H, D].
std::vector<int> rows_first(std::size_t rank) {
  std::vector<int> order(rank);
  std::iota(order.begin(), order.end(), 0);
  std::swap(order[rank - 3], order[rank - 2]);
  return order;
}

}  // namespace

passes::TakesHeads takes_heads(const targets::TargetInfo& target, const FusionRequest& request,
                               const NamesOfProducts& left) {
  return [&](const passes::NamedWorkOnHeads& work) {
    if (target.kind == DeviceKind::cpu || work.split.empty() || left.contains(work.product)) {
      return false;
    }
    // Elsewhere the framework's pass does it beside what it does anyhow.
    if (!request.in_memory.contains(work.result)) return false;
    const Rows rows = rows_of(work.split, request.likely_sizes);
    return rows.num_symbolic <= 1 && (!rows.is_known || rows.count > kMostRowsOfOneLaunch);
  };
}

NamesOfProducts heads_left(const std::vector<FusionLevel>& levels,
                           const std::vector<FusedKernel>& kernels) {
  NamesOfProducts left;
  for (const FusionLevel& level : levels) {
    for (const auto& work : level.heads) {
      const bool is_done = std::ranges::any_of(
          kernels, [&](const FusedKernel& kernel) { return does(kernel, work); });
      if (!is_done) left.insert(work.product);
    }
  }
  return left;
}

void describe_heads(const std::vector<FusionLevel>& levels, std::vector<FusedKernel>& kernels) {
  for (const FusionLevel& level : levels) {
    for (const auto& work : level.heads) {
      for (FusedKernel& kernel : kernels) {
        if (!does(kernel, work)) continue;
        kernel.values = work.values;
        if (!work.heads_first) kernel.outputs.front().order = rows_first(work.split.size());
      }
    }
  }
}

}  // namespace epifuse
