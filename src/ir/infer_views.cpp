// Typing rules of the views.
#include "ir/infer_views.h"

#include <fmt/core.h>
#include <fmt/ranges.h>

#include "base/check.h"
#include "epifuse/error.h"
#include "ir/text.h"

namespace epifuse::ir {
namespace {

TensorType infer_transpose(const Node& node, const Node& operand) {
  const std::size_t rank = operand.type.shape.size();
  std::vector<bool> seen(rank, false);
  bool valid = node.permutation.size() == rank;
  for (std::size_t i = 0; valid && i < rank; ++i) {
    const auto from = static_cast<std::size_t>(node.permutation[i]);  // negative: huge
    valid = from < rank && !seen[from];
    if (valid) seen[from] = true;
  }
  if (!valid) {
    throw GraphError(fmt::format("transpose expects each dim of {} once, got [{}]",
                                 describe_value(operand), fmt::join(node.permutation, ", ")));
  }
  TensorType type{operand.type.dtype, {}, {}};
  for (int from : node.permutation) {
    type.shape.push_back(operand.type.shape[static_cast<std::size_t>(from)]);
  }
  return type;
}

Dim num_elements(const Shape& shape) {
  Dim product = 1;
  for (const Dim& dim : shape) product = product * dim;
  return product;
}

TensorType infer_reshape(const Node& node, const Node& operand) {
  const Dim before = num_elements(operand.type.shape), after = num_elements(node.type.shape);
  if (before != after) {
    throw GraphError(fmt::format("reshape expects a shape of {} elements for {}, got {} with {}",
                                 before.str(), describe_value(operand), print(node.type.shape),
                                 after.str()));
  }
  return {operand.type.dtype, node.type.shape, {}};
}

bool is_surely_negative(const Dim& dim) { return dim.constant().value_or(0) < 0; }

// Number of elements of `range` in a dim of `size` elements.
Dim slice_size(const SliceRange& range, const Dim& size, const Node& operand) {
  const auto fail = [&](std::string_view expected) {
    throw GraphError(fmt::format("slice of {} expects {}, got {}:{}:{} of size {}",
                                 describe_value(operand), expected, range.start.str(),
                                 range.stop.str(), range.step, size.str()));
  };
  if (range.step < 1) fail("steps of at least 1");
  const Dim length = range.stop - range.start;
  if (is_surely_negative(range.start) || is_surely_negative(length) ||
      is_surely_negative(size - range.stop)) {
    fail("0 <= start <= stop <= size");
  }
  if (const std::optional<std::int64_t> known = length.constant()) {
    return *known / range.step + (*known % range.step != 0 ? 1 : 0);
  }
  // Rounded up: q + ceil(c / step) for a length of step q + c, where c is its constant term.
  const std::int64_t past = length.constant_term() % range.step;
  const Dim padded = length + (past > 0 ? range.step - past : -past);
  const std::optional<Dim> quotient = padded.divide(range.step);
  if (!quotient) fail("a step that divides the symbols' part of stop - start");
  return *quotient;
}

TensorType infer_slice(const Node& node, const Node& operand) {
  const Shape& shape = operand.type.shape;
  if (node.ranges.size() != shape.size()) {
    throw GraphError(fmt::format("slice expects one range per dim of {}, got {}",
                                 describe_value(operand), node.ranges.size()));
  }
  TensorType type{operand.type.dtype, {}, {}};
  for (std::size_t d = 0; d < shape.size(); ++d) {
    type.shape.push_back(slice_size(node.ranges[d], shape[d], operand));
  }
  return type;
}

TensorType infer_broadcast(const Node& node, const Node& operand) {
  const Shape& from = operand.type.shape;
  const Shape& to = node.type.shape;
  bool valid = from.size() <= to.size();
  for (std::size_t d = 0; valid && d < from.size(); ++d) {
    valid = from[d].is(1) || from[d] == to[to.size() - from.size() + d];
  }
  if (!valid) {
    throw GraphError(
        fmt::format("broadcast of {} expects a shape that repeats its dims of size 1, got {}",
                    describe_value(operand), print(to)));
  }
  return {operand.type.dtype, to, {}};
}

// An index i32[T] or i64[T] of rows of [R, ..].
TensorType infer_take_rows(const Node& node, const Node& operand, const Node& index) {
  const TensorType& type = index.type;
  const bool is_index = is_integer(type.dtype) && type.shape.size() == 1;
  if (operand.type.shape.empty() || is_integer(operand.type.dtype) || !is_index) {
    throw GraphError(
        fmt::format("{} expects a float or bool value [R, ..] and an index i32[T] or "
                    "i64[T], got {} and {}",
                    name(node.op), describe_value(operand), describe_value(index)));
  }
  TensorType result{operand.type.dtype, operand.type.shape, {}};
  result.shape[0] = type.shape[0];
  return result;
}

TensorType infer_repeat_rows(const Node& node, const Node& operand, const Node& ends) {
  infer_take_rows(node, operand, ends);
  TensorType result{operand.type.dtype, operand.type.shape, {}};
  if (result.shape[0] != ends.type.shape[0]) {
    throw GraphError(fmt::format("repeat_rows expects a row for each of {} groups, got {}",
                                 ends.type.shape[0].str(), describe_value(operand)));
  }
  result.shape[0] = node.type.shape.empty() ? Dim{} : node.type.shape[0];
  if (result.shape != node.type.shape) {
    throw GraphError(
        fmt::format("repeat_rows of {} expects a shape that differs in its first size "
                    "alone, got {}",
                    describe_value(operand), print(node.type.shape)));
  }
  return result;
}

}  // namespace

std::string describe_value(const Node& value) {
  return fmt::format("{}: {}", value.name, print(value.type));
}

TensorType infer_view(const Graph& graph, const Node& node) {
  const Node& operand = graph[node.args[0]];
  switch (node.op) {
    case Op::transpose: return infer_transpose(node, operand);
    case Op::reshape: return infer_reshape(node, operand);
    case Op::slice: return infer_slice(node, operand);
    case Op::take_rows: return infer_take_rows(node, operand, graph[node.args[1]]);
    case Op::repeat_rows: return infer_repeat_rows(node, operand, graph[node.args[1]]);
    default:
      EPIFUSE_CHECK(node.op == Op::broadcast, "not a view");
      return infer_broadcast(node, operand);
  }
}

}  // namespace epifuse::ir
