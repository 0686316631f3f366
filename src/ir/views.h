// What is known of a value's memory layout before any tensor is bound, and exactly once all are.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "ir/graph.h"

namespace epifuse::ir {

// The value whose memory `id` is a view of: follows transpose, reshape, slice and broadcast.
ValueId storage(const Graph& graph, ValueId id);

// For every dim of `id`: false when moving along it surely stays on the same element (size 1,
// stride 0, broadcast), true otherwise.
std::vector<bool> varies(const Graph& graph, ValueId id);

// The dim of `id` along which memory is surely contiguous (stride 1), if one is known now.
std::optional<int> unit_stride_dim(const Graph& graph, ValueId id);

// The rows of a view that are looked up in integers: its number along `dim` of the view stands for
// that row of what `node`, a take_rows or repeat_rows between it and its storage, looks into.
struct Lookup {
  ValueId node;
  std::size_t dim;
  bool operator==(const Lookup&) const = default;
};
// The lookup between a value and its storage. Null where there is none, and where views on top of
// it no longer have its rows, all of them along one dim: see has_plain_lookup.
std::optional<Lookup> lookup(const Graph& graph, ValueId id);
// False where there are two lookups or views blur one, so that no single dim of the view is looked
// up.
bool has_plain_lookup(const Graph& graph, ValueId id);
// The integers that `node`, a lookup, a scatter or a product of groups, goes by.
ValueId index_of(const Node& node);

// Whether `view` is a slice that leaves all dims of its operand as they are but the last.
bool is_column_slice(const Graph& graph, ValueId view);

// Two column slices of one value that share it out: its halves, or every other column.
enum class Halves : std::uint8_t { none, behind, by_turns };
// How `first`, then `second`, share out their operand.
Halves halves(const Graph& graph, ValueId first, ValueId second);

// One of such two parts of a dim: it begins `offset` elements behind the whole.
template <class N>
struct Piece {
  N offset, stride;
};
// `size`: of each part; `stride`: of the whole dim.
template <class N>
Piece<N> piece(Halves how, bool is_second, const N& size, const N& stride) {
  const bool by_turns = how == Halves::by_turns;
  const N second = by_turns ? stride : size * stride;
  return {is_second ? second : N(0), by_turns ? N(2) * stride : stride};
}

// Where a view starts and steps in its storage, in elements.
template <class N>
struct LayoutOf {
  N offset = 0;
  std::vector<N> shape, strides;
};
using Layout = LayoutOf<std::int64_t>;
using SymbolicLayout = LayoutOf<Dim>;

// Layout of view `id`, given sizes and the layout of its storage. Along a dim that is looked up the
// stride is that of the rows looked into. Empty when a reshape on the way cannot be expressed by
// strides (the caller says so, or copies).
std::optional<Layout> resolve(const Graph& graph, ValueId id, const Layout& storage,
                              const Sizes& sizes);
// The same of one view, by the layout of its operand.
std::optional<Layout> through(const Graph& graph, ValueId view, const Layout& operand,
                              const Sizes& sizes);
std::optional<SymbolicLayout> through(const Node& view, const SymbolicLayout& operand);
// Layout of a value where inputs with strides known only at run time are taken to be dense. Empty
// when a reshape on the way cannot be a view.
std::optional<SymbolicLayout> expected_layout(const Graph& graph, ValueId id);

// Strides along the dims of `shape`, to which the layout's broadcasts: 0 where it repeats.
std::vector<std::int64_t> strides_over(const Layout& layout,
                                       const std::vector<std::int64_t>& shape);

// A shape at these sizes. Throws ArgumentError for a negative size and for more elements than
// kMaxElements, so that nothing that is made of the result wraps.
std::vector<std::int64_t> eval(const Shape& shape, const Sizes& sizes);
// The strides of such a shape. Throws ArgumentError where they reach over more than kMaxElements.
std::vector<std::int64_t> eval_strides(const Shape& strides, const Shape& shape,
                                       const Sizes& sizes);

}  // namespace epifuse::ir
