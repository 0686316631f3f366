// How a value is read at each point of an iteration space.
#include "plan/access.h"

#include <algorithm>

#include "ir/reshape.h"
#include "ir/views.h"

namespace epifuse::plan {
namespace {

using ir::Graph;
using ir::Node;
using ir::Op;
using ir::Shape;
using ir::ValueId;

std::vector<Dim> dense_strides(const Shape& shape) {
  std::vector<Dim> strides(shape.size(), 1);
  for (std::size_t d = shape.size(); d-- > 1;) strides[d - 1] = strides[d] * shape[d];
  return strides;
}

std::optional<std::vector<Dim>> reshaped(const Shape& from, const std::vector<Dim>& strides,
                                         const Shape& to) {
  std::vector<Dim> result = dense_strides(to);
  for (const ir::ReshapeGroup& group : ir::reshape_groups(from, to)) {
    for (std::size_t i = 0; i + 1 < group.from.size(); ++i) {
      const std::size_t outer = group.from[i], inner = group.from[i + 1];
      if (strides[outer] != strides[inner] * from[inner]) return std::nullopt;
    }
    Dim stride = strides[group.from.back()];
    for (std::size_t i = group.to.size(); i-- > 0;) {
      result[group.to[i]] = stride;
      stride = stride * to[group.to[i]];
    }
  }
  return result;
}

std::optional<std::vector<Dim>> viewed(const Graph& graph, const Node& view,
                                       const std::vector<Dim>& strides) {
  const Shape& from = graph[view.args[0]].type.shape;
  const Shape& to = view.type.shape;
  if (view.op == Op::reshape) return reshaped(from, strides, to);
  std::vector<Dim> result(to.size(), 0);
  const std::size_t lead = to.size() - from.size();
  for (std::size_t d = 0; d < to.size(); ++d) {
    if (view.op == Op::transpose) {
      result[d] = strides[static_cast<std::size_t>(view.permutation[d])];
    } else if (view.op == Op::slice) {
      result[d] = strides[d] * view.ranges[d].step;
    } else if (ir::is_lookup(view.op) || (d >= lead && from[d - lead] == to[d])) {
      result[d] = strides[d - lead];
    }
  }
  return result;
}

Access classify(bool varies_m, bool varies_n) {
  if (varies_m) return varies_n ? Access::tile : Access::col;
  return varies_n ? Access::row : Access::scalar;
}

// Whether memory is surely contiguous along the dim that the access names: n, or `m` for a column.
bool has_unit_stride(const Graph& graph, const Load& load, const Shape& space, std::size_t m) {
  const std::optional<int> unit = ir::unit_stride_dim(graph, load.value);
  if (!unit || load.access == Access::scalar) return false;
  const std::size_t lead = space.size() - graph[load.value].type.shape.size();
  const std::size_t dim = load.access == Access::col ? m : space.size() - 1;
  return lead + static_cast<std::size_t>(*unit) == dim;
}

}  // namespace

std::vector<bool> varies_in(const Graph& graph, ValueId id, const Shape& space) {
  std::vector<bool> own = ir::varies(graph, id);
  std::vector<bool> result(space.size() - own.size(), false);
  result.insert(result.end(), own.begin(), own.end());
  return result;
}

Load make_load(const Graph& graph, ValueId id, const Shape& space) {
  const Node& node = graph[id];
  Load load{node.name, id, node.type.dtype, Access::parameter, false, false};
  if (node.op == Op::scalar) return load;
  const std::vector<bool> varies = varies_in(graph, id, space);
  const std::size_t rank = space.size();
  load.access = classify(rank >= 2 && varies[rank - 2], rank >= 1 && varies[rank - 1]);
  for (std::size_t d = 0; d + 2 < rank; ++d) load.batched = load.batched || varies[d];
  load.unit_stride = has_unit_stride(graph, load, space, rank - 2);
  if (const auto lookup = ir::lookup(graph, id)) {
    load.lookup = lookup->node;
    load.by_group = graph[lookup->node].op == Op::repeat_rows;
  }
  return load;
}

Load make_folded_load(const Graph& graph, ValueId id, const Shape& space) {
  Load load = make_load(graph, id, space);
  if (load.access == Access::parameter) return load;
  const std::vector<bool> varies = varies_in(graph, id, space);
  std::size_t innermost = space.size() - 2;  // of the dims that m is made of
  while (innermost > 0 && space[innermost].is(1)) --innermost;
  load.access = classify(load.batched || varies[space.size() - 2], varies[space.size() - 1]);
  load.batched = false;
  load.unit_stride = has_unit_stride(graph, load, space, innermost);
  return load;
}

std::optional<std::vector<Dim>> expected_strides(const Graph& graph, ValueId id) {
  std::vector<ValueId> chain;
  for (; ir::is_view(graph[id].op); id = graph[id].args[0]) chain.push_back(id);
  const ir::TensorType& type = graph[id].type;
  std::optional<std::vector<Dim>> strides =
      type.strides.empty() ? dense_strides(type.shape) : type.strides;
  for (std::size_t i = chain.size(); strides && i-- > 0;) {
    strides = viewed(graph, graph[chain[i]], *strides);
  }
  return strides;
}

bool reshapes_as_view(const Graph& graph, ValueId id, const Shape& to) {
  const std::optional<std::vector<Dim>> strides = expected_strides(graph, id);
  return strides && reshaped(graph[id].type.shape, *strides, to);
}

bool leading_dims_collapse(const Graph& graph, ValueId id, const Shape& space) {
  const std::vector<bool> varies = varies_in(graph, id, space);
  std::vector<std::size_t> dims;  // the leading ones that are walked at all
  for (std::size_t d = 0; d + 1 < space.size(); ++d) {
    if (!space[d].is(1)) dims.push_back(d);
  }
  const auto varies_along = [&](std::size_t d) { return static_cast<bool>(varies[d]); };
  if (std::none_of(dims.begin(), dims.end(), varies_along)) return true;
  if (!std::all_of(dims.begin(), dims.end(), varies_along)) return false;
  const std::optional<std::vector<Dim>> strides = expected_strides(graph, id);
  if (!strides) return false;
  const std::size_t lead = space.size() - strides->size();
  for (std::size_t i = 0; i + 1 < dims.size(); ++i) {
    const Dim& outer = (*strides)[dims[i] - lead];
    const Dim& inner = (*strides)[dims[i + 1] - lead];
    if (outer != inner * space[dims[i + 1]]) return false;
  }
  return true;
}

}  // namespace epifuse::plan
