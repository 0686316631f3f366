// Reads what stands to the right of `=` in a statement: an op, its operands and attributes.
#pragma once

#include "ir/parse_state.h"

namespace epifuse::ir {

// The node without name and result type; literal operands are added to the graph as constants.
Node parse_call(ParseState& state);

}  // namespace epifuse::ir
