// Products whose heads are read by halves, such as queries and keys with rotary positions.
#include "partition/fusion_heads.h"

#include <algorithm>
#include <numeric>
#include <optional>
#include <span>
#include <utility>

namespace epifuse {
namespace {

// Beside one launch for queries, keys and values (docs/gotchas-pytorch.md).
constexpr std::int64_t kMostRowsOfOneLaunch = 64;

bool does(const FusedKernel& kernel, const passes::NamedWorkOnHeads& work) {
  return kernel.outputs.size() == 1 && kernel.outputs.front().value == work.result &&
         std::ranges::find(kernel.values, work.product) != kernel.values.end();
}

// Kernels have tiles of so many rows, none of two matrices of a batch.
constexpr std::int64_t kRowsOfTile = 128;
// A head has tiles of its own. Narrower ones cost more than a pass (docs/gotchas-pytorch.md).
constexpr std::int64_t kFewestColumns = 128;

// How many rows dims before heads stand for, at the sizes that are likely; empty if not known.
std::optional<std::int64_t> num_rows(std::span<const Dim> dims, const Sizes& likely) {
  std::int64_t rows = 1;
  for (const Dim& dim : dims) {
    const auto is_likely = [&](const std::string& symbol) { return likely.contains(symbol); };
    if (!std::ranges::all_of(dim.symbols(), is_likely)) return std::nullopt;
    rows *= dim.eval(likely);
  }
  return rows;
}

// Whether [.., S, H, D] are worth a product of each head: of wide heads and so many rows that one
// launch for all products of them does not pay, and, in batches, of few tiles that rows do not
// fill.
bool has_sizes_for_heads(const ir::Shape& split, const Sizes& likely) {
  const std::span<const Dim> dims(split.data(), split.size() - 2);
  const auto is_symbolic = [](const Dim& dim) { return !dim.constant(); };
  if (split.back().constant().value_or(0) < kFewestColumns) return false;
  if (std::ranges::count_if(dims, is_symbolic) > 1) return false;  // frameworks reshape by one -1
  const auto batch = num_rows(dims.first(dims.size() - 1), likely);
  const auto rows = num_rows(dims.last(1), likely);
  if (!batch || (!rows && *batch > 1)) return false;
  if (!rows) return true;
  if (*rows <= kMostRowsOfOneLaunch) return false;
  const std::int64_t in_tiles = (*rows + kRowsOfTile - 1) / kRowsOfTile * kRowsOfTile;
  return *batch == 1 || 20 * in_tiles <= 21 * *rows;  // 5 % of them are what a pass is worth
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
    return request.in_memory.contains(work.result) &&
           has_sizes_for_heads(work.split, request.likely_sizes);
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
