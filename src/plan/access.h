// How a value is read at each point of an iteration space.
#pragma once

#include <optional>
#include <vector>

#include "ir/graph.h"
#include "plan/epilogue.h"

namespace epifuse::plan {

// Reads `id` (a result of loaded_value) at every point of `space`, to which its shape broadcasts.
// What counts is along which dims its memory varies, not which dims it has.
Load make_load(const ir::Graph& graph, ir::ValueId id, const ir::Shape& space);

// The same where all dims of `space` but the last are walked as one, the rows of a folded product.
Load make_folded_load(const ir::Graph& graph, ir::ValueId id, const ir::Shape& space);

// Whether `id` varies along each dim of `space`.
std::vector<bool> varies_in(const ir::Graph& graph, ir::ValueId id, const ir::Shape& space);

// Whether `id` can be seen under another shape without a copy. Inputs with strides known
// only at run time are taken to be dense.
bool reshapes_as_view(const ir::Graph& graph, ir::ValueId id, const ir::Shape& to);

// Whether the leading dims of `space`, all but the last, can be walked as one: the value varies
// along none of them, or along all with one stride. `id` is [.., n] and broadcasts to `space`.
bool leading_dims_collapse(const ir::Graph& graph, ir::ValueId id, const ir::Shape& space);

}  // namespace epifuse::plan
