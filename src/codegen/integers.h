// Integers that rows go by, as kernels read them.
#pragma once

#include "codegen/bound.h"
#include "kernels/abi.h"

namespace epifuse::codegen {

// The integers that `node`, a lookup, a scatter or a grouped product, goes by, where they are in
// memory. Throws ArgumentError where a view of them needs a copy.
BoundTensor bound_integers(const ir::Graph& graph, const ir::Node& node, const Bound& bound);

// What an index names: rows of the table, or of the result they are put in.
std::int64_t num_named_rows(const ir::Graph& graph, const ir::Node& node, const Bound& bound);

// The integers for kernels. Ends and counts come with how many there are; an index with the number
// of rows it names rows of. Throws ArgumentError where rows are to be read of none, too.
abi::Integers kernel_integers(const ir::Graph& graph, const ir::Node& node, const Bound& bound);

}  // namespace epifuse::codegen
