// What is known of a value's memory layout before any tensor is bound, and exactly once all are.
#include "ir/views.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "base/check.h"
#include "base/strided.h"
#include "epifuse/error.h"
#include "ir/reshape.h"
#include "ir/text.h"

namespace epifuse::ir {
namespace {

// The views between storage and `id`, the outermost (that of the storage) first.
std::vector<ValueId> view_chain(const Graph& graph, ValueId id) {
  std::vector<ValueId> chain;
  for (; is_view(graph[id].op); id = graph[id].args[0]) chain.push_back(id);
  std::reverse(chain.begin(), chain.end());
  return chain;
}

const Shape& operand_shape(const Graph& graph, const Node& view) {
  return graph[view.args[0]].type.shape;
}

std::vector<bool> storage_varies(const TensorType& type) {
  std::vector<bool> result;
  for (std::size_t d = 0; d < type.shape.size(); ++d) {
    const bool still = type.shape[d].is(1) || (!type.strides.empty() && type.strides[d].is(0));
    result.push_back(!still);
  }
  return result;
}

std::vector<bool> reshape_varies(const Shape& from, const Shape& to,
                                 const std::vector<bool>& varies_from) {
  std::vector<bool> result(to.size(), false);
  for (const ReshapeGroup& group : reshape_groups(from, to)) {
    const bool any = std::any_of(group.from.begin(), group.from.end(),
                                 [&](std::size_t d) { return varies_from[d]; });
    for (std::size_t d : group.to) result[d] = any;
  }
  return result;
}

std::vector<bool> view_varies(const Node& view, const Shape& from,
                              const std::vector<bool>& varies_from) {
  const Shape& to = view.type.shape;
  if (view.op == Op::reshape) return reshape_varies(from, to, varies_from);
  std::vector<bool> result(to.size(), false);
  for (std::size_t d = 0; d < to.size(); ++d) {
    if (to[d].is(1)) continue;
    if (view.op == Op::transpose) {
      result[d] = varies_from[static_cast<std::size_t>(view.permutation[d])];
    } else if (is_lookup(view.op)) {
      result[d] = varies_from[d];
    } else if (const std::size_t lead = to.size() - from.size(); d >= lead) {
      result[d] = varies_from[d - lead];  // of a slice lead is 0; a repeated dim has size 1 before
    }
  }
  return result;
}

std::optional<std::size_t> storage_unit_dim(const TensorType& type) {
  if (type.shape.empty()) return std::nullopt;
  if (type.strides.empty()) return type.shape.size() - 1;
  for (std::size_t d = type.strides.size(); d-- > 0;) {
    if (type.strides[d].is(1)) return d;
  }
  return std::nullopt;
}

// Where the unit-stride dim `unit` of the operand is in the view.
std::optional<std::size_t> view_unit_dim(const Node& view, const Shape& from, std::size_t unit) {
  const Shape& to = view.type.shape;
  switch (view.op) {
    case Op::transpose: {
      const auto place =
          std::find(view.permutation.begin(), view.permutation.end(), static_cast<int>(unit));
      return static_cast<std::size_t>(place - view.permutation.begin());
    }
    case Op::slice:
      if (view.ranges[unit].step == 1) return unit;
      return std::nullopt;
    case Op::take_rows:
    case Op::repeat_rows: return unit > 0 ? std::optional(unit) : std::nullopt;
    case Op::broadcast: {
      const std::size_t d = to.size() - from.size() + unit;
      if (from[unit] == to[d]) return d;
      return std::nullopt;
    }
    default:
      for (const ReshapeGroup& group : reshape_groups(from, to)) {
        if (group.from.back() == unit) return group.to.back();
      }
      return std::nullopt;
  }
}

Layout resolve_transpose(const Node& view, const Layout& from) {
  Layout to{from.offset, {}, {}};
  for (int d : view.permutation) {
    to.shape.push_back(from.shape[static_cast<std::size_t>(d)]);
    to.strides.push_back(from.strides[static_cast<std::size_t>(d)]);
  }
  return to;
}

Layout resolve_slice(const Node& view, const Layout& from, const Sizes& sizes) {
  Layout to{from.offset, {}, {}};
  for (std::size_t d = 0; d < from.shape.size(); ++d) {
    const SliceRange& range = view.ranges[d];
    const std::int64_t start = range.start.eval(sizes), stop = range.stop.eval(sizes);
    if (start < 0 || stop < start || stop > from.shape[d]) {
      throw ArgumentError(fmt::format("slice '{}' takes {}:{} of dim {}, which has size {}",
                                      view.name, start, stop, d, from.shape[d]));
    }
    const std::int64_t length = stop - start, size = length / range.step;
    to.shape.push_back(size + (length % range.step != 0 ? 1 : 0));
    to.strides.push_back(to.shape.back() > 1 ? from.strides[d] * range.step : from.strides[d]);
    if (start < from.shape[d]) to.offset += start * from.strides[d];
  }
  return to;
}

Layout resolve_broadcast(const Node& view, const Shape& from_shape, const Layout& from,
                         const Sizes& sizes) {
  Layout to{from.offset, eval(view.type.shape, sizes), {}};
  const std::size_t lead = to.shape.size() - from.shape.size();
  to.strides.assign(lead, 0);
  for (std::size_t d = 0; d < from.shape.size(); ++d) {
    const bool repeats = from_shape[d] != view.type.shape[lead + d];
    to.strides.push_back(repeats ? 0 : from.strides[d]);
  }
  return to;
}

std::optional<Layout> resolve_reshape(const Node& view, const Layout& from, const Sizes& sizes) {
  Layout to{from.offset, eval(view.type.shape, sizes), {}};
  std::optional<std::vector<std::int64_t>> strides =
      reshape_strides(from.shape, from.strides, to.shape);
  if (!strides) return std::nullopt;
  to.strides = std::move(*strides);
  return to;
}

Layout resolve_lookup(const Node& view, const Layout& from, const Sizes& sizes) {
  Layout to = from;
  to.shape[0] = eval({view.type.shape[0]}, sizes).front();
  return to;
}

// Where all of dim `dim` of the operand is in the view, in order; nowhere if not.
std::optional<std::size_t> place_of_dim(const Node& view, const Shape& from, std::size_t dim) {
  const Shape& to = view.type.shape;
  switch (view.op) {
    case Op::transpose:
    case Op::broadcast: return view_unit_dim(view, from, dim);
    case Op::slice:
      if (view.ranges[dim] != SliceRange{Dim{}, from[dim], 1}) return std::nullopt;
      return dim;
    case Op::reshape:
      for (const ReshapeGroup& group : reshape_groups(from, to)) {
        const bool is_own = group.from.size() == 1 && group.to.size() == 1;
        if (is_own && group.from[0] == dim) return group.to[0];
      }
      return std::nullopt;
    default: return dim > 0 ? std::optional(dim) : std::nullopt;
  }
}

}  // namespace

ValueId storage(const Graph& graph, ValueId id) {
  while (is_view(graph[id].op)) id = graph[id].args[0];
  return id;
}

std::vector<bool> varies(const Graph& graph, ValueId id) {
  std::vector<bool> result = storage_varies(graph[storage(graph, id)].type);
  for (ValueId view : view_chain(graph, id)) {
    result = view_varies(graph[view], operand_shape(graph, graph[view]), result);
  }
  return result;
}

std::optional<int> unit_stride_dim(const Graph& graph, ValueId id) {
  std::optional<std::size_t> unit = storage_unit_dim(graph[storage(graph, id)].type);
  for (ValueId view : view_chain(graph, id)) {
    if (!unit) return std::nullopt;
    unit = view_unit_dim(graph[view], operand_shape(graph, graph[view]), *unit);
  }
  return unit ? std::optional(static_cast<int>(*unit)) : std::nullopt;
}

std::optional<Lookup> lookup(const Graph& graph, ValueId id) {
  std::optional<Lookup> found;
  for (ValueId view : view_chain(graph, id)) {
    const Node& node = graph[view];
    if (is_lookup(node.op)) {
      if (found) return std::nullopt;
      found = Lookup{view, 0};
    } else if (found) {
      const auto dim = place_of_dim(node, operand_shape(graph, node), found->dim);
      if (!dim) return std::nullopt;
      found->dim = *dim;
    }
  }
  return found;
}

bool has_plain_lookup(const Graph& graph, ValueId id) {
  const std::vector<ValueId> chain = view_chain(graph, id);
  const bool any = std::any_of(chain.begin(), chain.end(),
                               [&](ValueId view) { return is_lookup(graph[view].op); });
  return !any || lookup(graph, id).has_value();
}

ValueId index_of(const Node& node) { return node.args.back(); }

bool is_column_slice(const Graph& graph, ValueId view) {
  const Node& node = graph[view];
  if (node.op != Op::slice || node.ranges.empty()) return false;
  const Shape& shape = operand_shape(graph, node);
  for (std::size_t d = 0; d + 1 < shape.size(); ++d) {
    if (node.ranges[d] != SliceRange{Dim{}, shape[d], 1}) return false;
  }
  return true;
}

Halves halves(const Graph& graph, ValueId first, ValueId second) {
  if (!is_column_slice(graph, first) || !is_column_slice(graph, second)) return Halves::none;
  const ValueId operand = graph[first].args[0];
  const Shape& shape = graph[first].type.shape;
  if (graph[second].args[0] != operand || graph[second].type.shape != shape) return Halves::none;
  if (shape.back() * 2 != graph[operand].type.shape.back()) return Halves::none;
  const SliceRange& a = graph[first].ranges.back();
  const SliceRange& b = graph[second].ranges.back();
  if (!a.start.is(0)) return Halves::none;
  if (a.step == 1 && b.step == 1 && b.start == shape.back()) return Halves::behind;
  return a.step == 2 && b.step == 2 && b.start.is(1) ? Halves::by_turns : Halves::none;
}

std::optional<Layout> resolve(const Graph& graph, ValueId id, const Layout& storage_layout,
                              const Sizes& sizes) {
  std::optional<Layout> layout = storage_layout;
  EPIFUSE_CHECK(layout->shape.size() == graph[storage(graph, id)].type.shape.size() &&
                    layout->strides.size() == layout->shape.size(),
                "the layout bound to a value has another rank");
  for (ValueId view_id : view_chain(graph, id)) {
    const Node& view = graph[view_id];
    switch (view.op) {
      case Op::transpose: layout = resolve_transpose(view, *layout); break;
      case Op::slice: layout = resolve_slice(view, *layout, sizes); break;
      case Op::take_rows:
      case Op::repeat_rows: layout = resolve_lookup(view, *layout, sizes); break;
      case Op::broadcast:
        layout = resolve_broadcast(view, operand_shape(graph, view), *layout, sizes);
        break;
      default: layout = resolve_reshape(view, *layout, sizes); break;
    }
    if (!layout) return std::nullopt;
  }
  return layout;
}

std::vector<std::int64_t> eval(const Shape& shape, const Sizes& sizes) {
  std::vector<std::int64_t> result;
  for (const Dim& dim : shape) {
    result.push_back(dim.eval(sizes));
    if (result.back() < 0) {
      throw ArgumentError(fmt::format("size {} is negative: {}", dim.str(), result.back()));
    }
  }
  if (!checked_count(result)) {
    throw ArgumentError(
        fmt::format("expected a shape of at most 2^40 elements, got {}, which is "
                    "[{}]",
                    print(shape), fmt::join(result, ", ")));
  }
  return result;
}

std::vector<std::int64_t> eval_strides(const Shape& strides, const Shape& shape,
                                       const Sizes& sizes) {
  std::vector<std::int64_t> result;
  for (const Dim& stride : strides) result.push_back(stride.eval(sizes));
  const std::vector<std::int64_t> extents = eval(shape, sizes);
  if (!checked_reach(extents, result)) {
    throw ArgumentError(fmt::format(
        "expected strides that reach over at most 2^40 elements, got {}, which is [{}], of [{}]",
        print(strides), fmt::join(result, ", "), fmt::join(extents, ", ")));
  }
  return result;
}

}  // namespace epifuse::ir
