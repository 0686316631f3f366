// Which values may be the block scales of a product, and how many there must be.
#include "ir/infer_scales.h"

#include <fmt/core.h>

#include "base/ceil_div.h"
#include "base/check.h"
#include "epifuse/error.h"
#include "ir/infer_views.h"
#include "ir/text.h"
#include "ir/views.h"

namespace epifuse::ir {
namespace {

// What one operand and its scales have in common: `rows` of M or N, and K.
struct Side {
  const Node* operand;
  const Node* scales;
  Dim rows, k;
};

Side side_of(const Graph& graph, const Node& node, bool is_b) {
  const std::size_t first_scale = node.args.size() - 2;
  const Node& operand = graph[node.args[is_b ? 1 : 0]];
  const Shape& shape = operand.type.shape;
  const bool k_is_last = is_b ? node.transpose_b : !node.transpose_a;
  const Dim &last = shape.back(), &before = shape[shape.size() - 2];
  return {&operand, &graph[node.args[first_scale + (is_b ? 1 : 0)]], k_is_last ? before : last,
          k_is_last ? last : before};
}

// Whether `blocks` may be how many blocks `size` has: known where both are.
bool may_be_blocks(const Dim& size, const Dim& blocks) {
  if (size == blocks * kScaleBlock) return true;
  const auto elements = size.constant(), number = blocks.constant();
  return !elements || !number || *number == ceil_div(*elements, kScaleBlock);
}

void check_side(const Node& node, const Side& side, bool may_share) {
  const TensorType& type = side.scales->type;
  const Shape& shape = side.operand->type.shape;
  const auto fail = [&](std::string_view problem) {
    throw GraphError(
        fmt::format("{} expects scales of {} as f32 [.., {}, {} / 128 rounded up], got "
                    "{}: {}",
                    name(node.op), describe_value(*side.operand), side.rows.str(), side.k.str(),
                    describe_value(*side.scales), problem));
  };
  if (!is_fp8(side.operand->type.dtype)) fail("only e4m3 and e5m2 have block scales");
  if (type.dtype != DType::f32) fail("scales are f32");
  if (type.shape.size() != shape.size()) fail("it has another number of dims");
  for (std::size_t d = 0; d + 2 < shape.size(); ++d) {
    if (type.shape[d] != shape[d]) fail("its batch dims differ");
  }
  if (!may_be_blocks(side.k, type.shape.back())) fail("that is another number of blocks of K");
  const Dim& rows = type.shape[shape.size() - 2];
  if (rows == side.rows) return;
  if (!may_share) fail("each row needs one");
  if (!may_be_blocks(side.rows, rows)) fail("a row, or every 128 of them, needs one");
}

void check_number(const Node& node, const Side& side, const Dim& size, const Dim& blocks,
                  const Sizes& sizes) {
  const std::int64_t elements = size.eval(sizes), number = blocks.eval(sizes);
  if (number == ceil_div(elements, kScaleBlock)) return;
  throw ArgumentError(fmt::format("{} '{}' expects {} blocks of 128 for {} = {}, got {} in '{}'",
                                  name(node.op), node.name, ceil_div(elements, kScaleBlock),
                                  size.str(), elements, number, side.scales->name));
}

}  // namespace

void check_scales(const Graph& graph, const Node& node) {
  if (node.promoted) {
    throw GraphError(
        fmt::format("{} adds up blocks in float32 and is not said to be promoted", name(node.op)));
  }
  check_side(node, side_of(graph, node, false), false);
  check_side(node, side_of(graph, node, true), true);
}

void set_block_counts(const Graph& graph, const Sizes& given, Sizes& sizes) {
  const auto set = [&](const Dim& size, const Dim& blocks) {
    const std::optional<std::string> symbol = blocks.symbol();
    if (size == blocks || !symbol || given.contains(*symbol)) return;
    sizes[*symbol] = ceil_div(size.eval(sizes), kScaleBlock);
  };
  for (const Node& node : graph.nodes) {
    if (!is_scaled_matmul(node.op)) continue;
    for (const bool is_b : {false, true}) {
      const Side side = side_of(graph, node, is_b);
      const Shape& scales = side.scales->type.shape;
      set(side.k, scales.back());
      set(side.rows, scales[scales.size() - 2]);
    }
  }
}

BlockScales block_scales(const Graph& graph, const Node& product) {
  EPIFUSE_CHECK(is_scaled_matmul(product.op), "scales of a product that has none");
  const Side b = side_of(graph, product, true);
  const Shape& scales = b.scales->type.shape;
  const std::size_t first = product.args.size() - 2;
  return {product.args[first], product.args[first + 1], scales[scales.size() - 2] == b.rows};
}

void check_block_scales(const Graph& graph, const Node& product, const Sizes& sizes) {
  for (const bool is_b : {false, true}) {
    const Side side = side_of(graph, product, is_b);
    const Shape& scales = side.scales->type.shape;
    check_number(product, side, side.k, scales.back(), sizes);
    const Dim& rows = scales[scales.size() - 2];
    if (rows != side.rows) check_number(product, side, side.rows, rows, sizes);
  }
}

}  // namespace epifuse::ir
