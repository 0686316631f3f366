// Typing rules of the views (transpose, reshape, slice, broadcast); a part of infer_type.
#pragma once

#include <string>

#include "ir/graph.h"

namespace epifuse::ir {

// "x: bf16[M, 768]", for messages.
std::string describe_value(const Node& value);

// The operand is known to exist. Throws GraphError.
TensorType infer_view(const Graph& graph, const Node& node);

}  // namespace epifuse::ir
