// What the source of a tail kernel and its launch must agree on.
#pragma once

#include "plan/epilogue.h"

namespace epifuse::codegen {

// Which function of kernels/tail.cuh a tail instantiates.
enum class TailKind : std::uint8_t { elementwise, row_reduction, column_reduction };

struct TailShape {
  TailKind kind = TailKind::elementwise;
  int vector = 4;  // consecutive elements of a row that one thread takes at once
  int chunks = 1;  // such vectors that it has in flight
  bool operator==(const TailShape&) const = default;
};

// Throws InternalError for an epilogue that one tail kernel cannot do: reductions along rows and
// along columns at once, more loads or stores than kernels/abi.h has room for.
TailShape tail_shape(const plan::Epilogue& epilogue);

// Whether rows of an operand are looked up, or those of a result put where an index says.
bool looks_up(const plan::Epilogue& epilogue);

// Indices into Epilogue::loads in the order of TailParams::loads.
std::vector<int> tail_load_order(const plan::Epilogue& epilogue);

}  // namespace epifuse::codegen
