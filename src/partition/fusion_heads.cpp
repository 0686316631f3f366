// Products whose heads are read by halves, such as queries and keys with rotary positions.
#include "partition/fusion_heads.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <optional>
#include <span>
#include <utility>

#include "ir/views.h"

namespace epifuse {
namespace {

// For products of heads, and where one launch for queries, keys and values is better
// (docs/gotchas-pytorch.md).
constexpr std::int64_t kFewestRows = 65, kMostRowsOfOneLaunch = 1024;

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

// Whether [.., S, H, D] are worth a product of each head: of wide heads and more rows than
// `most_left`, and, in batches, of few tiles that rows do not fill.
bool has_sizes_for_heads(const ir::Shape& split, const Sizes& likely, std::int64_t most_left) {
  const std::span<const Dim> dims(split.data(), split.size() - 2);
  const auto is_symbolic = [](const Dim& dim) { return !dim.constant(); };
  if (split.back().constant().value_or(0) < kFewestColumns) return false;
  if (std::ranges::count_if(dims, is_symbolic) > 1) return false;  // frameworks reshape by one -1
  const auto batch = num_rows(dims.first(dims.size() - 1), likely);
  const auto rows = num_rows(dims.last(1), likely);
  if (!batch || (!rows && *batch > 1)) return false;
  if (!rows) return true;
  if (*rows < kFewestRows || *batch * *rows <= most_left) return false;
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

NamesOfProducts products_of_one_operand(const ir::Graph& graph) {
  std::map<ir::ValueId, std::vector<std::string>> by_operand;
  for (const ir::Node& node : graph.nodes) {
    if (node.op == ir::Op::matmul) {
      by_operand[ir::storage(graph, node.args.front())].push_back(node.name);
    }
  }
  NamesOfProducts names;
  for (const auto& [operand, products] : by_operand) {
    if (products.size() > 1) names.insert(products.begin(), products.end());
  }
  return names;
}

passes::TakesHeads takes_heads(const targets::TargetInfo& target, const FusionRequest& request,
                               const NamesOfProducts& left, const NamesOfProducts& one_launch) {
  return [&](const passes::NamedWorkOnHeads& work) {
    if (target.kind == DeviceKind::cpu || work.split.empty() || left.contains(work.product)) {
      return false;
    }
    // Elsewhere the framework's pass does it beside what it does anyhow.
    return request.in_memory.contains(work.result) &&
           has_sizes_for_heads(work.split, request.likely_sizes,
                               one_launch.contains(work.product) ? kMostRowsOfOneLaunch : 0);
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
