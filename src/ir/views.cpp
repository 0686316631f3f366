// What is known of a value's memory layout before any tensor is bound, and exactly once all are.
#include "ir/views.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "base/check.h"
#include "base/strided.h"
#include "epifuse/error.h"
#include "ir/text.h"
#include "ir/view_dims.h"

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

template <class N>
std::vector<N> dense_strides(const std::vector<N>& shape) {
  std::vector<N> strides(shape.size(), N(1));
  for (std::size_t d = shape.size(); d-- > 1;) strides[d - 1] = strides[d] * shape[d];
  return strides;
}

std::vector<bool> storage_varies(const TensorType& type) {
  std::vector<bool> result;
  for (std::size_t d = 0; d < type.shape.size(); ++d) {
    const bool still = type.shape[d].is(1) || (!type.strides.empty() && type.strides[d].is(0));
    result.push_back(!still);
  }
  return result;
}

std::vector<bool> view_varies(const Node& view, const Shape& from,
                              const std::vector<bool>& varies_from) {
  const Shape& to = view.type.shape;
  std::vector<bool> result(to.size(), false);
  for (const ViewDims& dims : view_dims(view, from, to)) {
    const bool any = std::any_of(dims.from.begin(), dims.from.end(),
                                 [&](std::size_t d) { return varies_from[d]; });
    for (std::size_t d : dims.to) result[d] = any && !to[d].is(1);
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
  for (const ViewDims& dims : view_dims(view, from, view.type.shape)) {
    if (dims.from.back() == unit && dims.is_step_one()) return dims.to.back();
  }
  return std::nullopt;
}

// Where all of dim `dim` of the operand is in the view, in order; nowhere if not.
std::optional<std::size_t> place_of_dim(const Node& view, const Shape& from, std::size_t dim) {
  for (const ViewDims& dims : view_dims(view, from, view.type.shape)) {
    const bool is_own = dims.from.size() == 1 && dims.to.size() == 1;
    const bool is_all = dims.range == nullptr && !dims.is_looked_up;
    if (is_own && is_all && dims.from[0] == dim) return dims.to[0];
  }
  return std::nullopt;
}

void check_ranges(const Node& slice, const std::vector<std::int64_t>& shape, const Sizes& sizes) {
  for (std::size_t d = 0; d < shape.size(); ++d) {
    const std::int64_t start = slice.ranges[d].start.eval(sizes);
    const std::int64_t stop = slice.ranges[d].stop.eval(sizes);
    // 1:2*N:2 of an empty dim is empty, too.
    const bool is_empty = slice.type.shape[d].eval(sizes) == 0;
    if (start < 0 || (stop < start && !is_empty) || stop > shape[d]) {
      throw ArgumentError(fmt::format("slice '{}' takes {}:{} of dim {}, which has size {}",
                                      slice.name, start, stop, d, shape[d]));
    }
  }
}

// The layout of a view of size `shape`; `value_of` gives a Dim as one of the layout's numbers.
template <class N, class ValueOf>
std::optional<LayoutOf<N>> layout_through(const Node& view, const Shape& operand,
                                          const LayoutOf<N>& from, std::vector<N> shape,
                                          const ValueOf& value_of) {
  const bool reshapes = view.op == Op::reshape;
  LayoutOf<N> to{from.offset, std::move(shape), {}};
  to.strides = reshapes ? dense_strides(to.shape) : std::vector<N>(to.shape.size(), N(0));
  // Numbers can tell more dims of a reshape apart than symbols.
  for (const ViewDims& dims : reshapes
                                  ? view_dims(view, Shape(from.shape.begin(), from.shape.end()),
                                              Shape(to.shape.begin(), to.shape.end()))
                                  : view_dims(view, operand, view.type.shape)) {
    // All dims of a group must be walked by one stride, that of its innermost dim.
    for (std::size_t i = 0; i + 1 < dims.from.size(); ++i) {
      const std::size_t outer = dims.from[i], inner = dims.from[i + 1];
      if (from.strides[outer] != from.strides[inner] * from.shape[inner]) return std::nullopt;
    }
    N stride = from.strides[dims.from.back()];
    if (dims.range != nullptr) {
      // An empty slice may start past the end, and a dim of one element is not stepped along.
      const N start = value_of(dims.range->start), size = to.shape[dims.to.back()];
      if (start != from.shape[dims.from.back()]) to.offset = to.offset + start * stride;
      if (size != N(0) && size != N(1)) stride = stride * N(dims.range->step);
    }
    for (std::size_t i = dims.to.size(); i-- > 0;) {
      to.strides[dims.to[i]] = stride;
      if (i > 0) stride = stride * to.shape[dims.to[i]];
    }
  }
  // A dim of size 1 is never stepped along; a reshape gives it the stride of a dense layout.
  for (std::size_t d = to.shape.size(); reshapes && d-- > 1;) {
    if (to.shape[d - 1] == N(1)) to.strides[d - 1] = to.strides[d] * to.shape[d];
  }
  return to;
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

ValueId index_of(const Node& node) {
  return is_grouped_matmul(node.op) ? node.args[2] : node.args.back();
}

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
  for (ValueId view : view_chain(graph, id)) {
    layout = through(graph, view, *layout, sizes);
    if (!layout) return std::nullopt;
  }
  return layout;
}

std::optional<Layout> through(const Graph& graph, ValueId view, const Layout& operand,
                              const Sizes& sizes) {
  const Node& node = graph[view];
  if (node.op == Op::slice) check_ranges(node, operand.shape, sizes);
  return layout_through(node, operand_shape(graph, node), operand, eval(node.type.shape, sizes),
                        [&](const Dim& dim) { return dim.eval(sizes); });
}

std::optional<SymbolicLayout> through(const Node& view, const SymbolicLayout& operand) {
  return layout_through(view, operand.shape, operand, view.type.shape,
                        [](const Dim& dim) { return dim; });
}

std::optional<SymbolicLayout> expected_layout(const Graph& graph, ValueId id) {
  const TensorType& type = graph[storage(graph, id)].type;
  std::optional<SymbolicLayout> layout{
      {0, type.shape, type.strides.empty() ? dense_strides(type.shape) : type.strides}};
  for (ValueId view : view_chain(graph, id)) {
    layout = through(graph[view], *layout);
    if (!layout) return std::nullopt;
  }
  return layout;
}

std::vector<std::int64_t> strides_over(const Layout& layout,
                                       const std::vector<std::int64_t>& shape) {
  EPIFUSE_CHECK(layout.shape.size() <= shape.size(), "an operand has more dims than its step");
  std::vector<std::int64_t> strides(shape.size(), 0);
  const std::size_t missing = shape.size() - layout.shape.size();
  for (std::size_t d = 0; d < layout.shape.size(); ++d) {
    if (layout.shape[d] != 1) strides[missing + d] = layout.strides[d];
  }
  return strides;
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
