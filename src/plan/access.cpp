// How a value is read at each point of an iteration space.
#include "plan/access.h"

#include <algorithm>

#include "ir/views.h"

namespace epifuse::plan {
namespace {

using ir::Graph;
using ir::Node;
using ir::Op;
using ir::Shape;
using ir::ValueId;

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

bool reshapes_as_view(const Graph& graph, ValueId id, const Shape& to) {
  const std::optional<ir::SymbolicLayout> layout = ir::expected_layout(graph, id);
  const Node reshape{.op = Op::reshape, .type = {graph[id].type.dtype, to, {}}};
  return layout && ir::through(reshape, *layout);
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
  const std::optional<ir::SymbolicLayout> layout = ir::expected_layout(graph, id);
  if (!layout) return false;
  const std::size_t lead = space.size() - layout->strides.size();
  for (std::size_t i = 0; i + 1 < dims.size(); ++i) {
    const Dim& outer = layout->strides[dims[i] - lead];
    const Dim& inner = layout->strides[dims[i + 1] - lead];
    if (outer != inner * space[dims[i + 1]]) return false;
  }
  return true;
}

}  // namespace epifuse::plan
