// Finds what integers stand for, and draws samples.
#include "ir/integers.h"

#include <fmt/core.h>

#include <algorithm>
#include <numeric>
#include <utility>

#include "epifuse/error.h"
#include "ir/views.h"

namespace epifuse::ir {
namespace {

using Kind = IntegerUse::Kind;

IntegerUse use_by(const Graph& graph, const Node& node) {
  const Shape& operand = graph[node.args[0]].type.shape;
  switch (node.op) {
    case Op::grouped_matmul:
    case Op::scaled_grouped_matmul:
      if (operand.size() == 2) return {Kind::ends, operand[0]};
      return {Kind::counts, operand[1]};
    case Op::k_grouped_matmul: return {Kind::ends, operand[node.transpose_a ? 0 : 1]};
    case Op::repeat_rows: return {Kind::ends, node.type.shape[0]};
    case Op::take_rows: return {Kind::rows, operand[0]};
    default: return {Kind::places, node.type.shape[0]};
  }
}

bool goes_by_integers(Op op) {
  return is_grouped_matmul(op) || op == Op::k_grouped_matmul || op == Op::put_rows || is_lookup(op);
}

// The cuts fall anywhere, so that groups differ in size; one in four times some rows are left over.
std::vector<std::int64_t> sample_ends(std::int64_t count, std::int64_t most,
                                      std::mt19937_64& random) {
  std::uniform_int_distribution<std::int64_t> place(0, most);
  std::vector<std::int64_t> ends(static_cast<std::size_t>(count));
  for (std::int64_t& end : ends) end = place(random);
  std::sort(ends.begin(), ends.end());
  if (!ends.empty()) {
    const auto left_over = static_cast<std::int64_t>(random() % 4 == 0 ? random() % 16 : 0);
    ends.back() = std::max(ends.back(), most - left_over);
  }
  return ends;
}

}  // namespace

IntegerUse use_of_integers(const Graph& graph, ValueId input) {
  IntegerUse found;
  for (const Node& node : graph.nodes) {
    if (!goes_by_integers(node.op) || storage(graph, index_of(node)) != input) continue;
    const IntegerUse use = use_by(graph, node);
    if (found.kind == Kind::none || use.kind == Kind::places) found = use;
  }
  return found;
}

std::vector<std::int64_t> sample_integers(const IntegerUse& use, std::int64_t count,
                                          const Sizes& sizes, std::mt19937_64& random) {
  const std::int64_t most = use.most.eval(sizes);
  std::vector<std::int64_t> values(static_cast<std::size_t>(count));
  switch (use.kind) {
    case Kind::none: return values;
    case Kind::ends: return sample_ends(count, most, random);
    case Kind::counts:
      for (std::int64_t& value : values) {
        value = std::uniform_int_distribution<std::int64_t>(0, most)(random);
      }
      return values;
    case Kind::rows:
      if (most == 0 && count > 0) throw ArgumentError("an index into no rows cannot be drawn");
      for (std::int64_t& value : values) {
        value = std::uniform_int_distribution<std::int64_t>(0, most - 1)(random);
      }
      return values;
    case Kind::places: break;
  }
  if (count > most) {
    throw ArgumentError(fmt::format("{} rows cannot be put in {} distinct places", count, most));
  }
  std::vector<std::int64_t> places(static_cast<std::size_t>(most));
  std::iota(places.begin(), places.end(), 0);
  std::shuffle(places.begin(), places.end(), random);
  std::copy_n(places.begin(), count, values.begin());
  return values;
}

}  // namespace epifuse::ir
