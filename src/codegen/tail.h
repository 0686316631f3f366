// Tails: one kernel template takes every tail that kernels/abi.h has room for.
#pragma once

#include "codegen/bound.h"
#include "codegen/launch.h"
#include "plan/plan.h"
#include "targets/targets.h"

namespace epifuse::codegen {

KernelSource tail_source(const plan::Plan& plan, const plan::Tail& tail,
                         const targets::TargetInfo& target);
Launch tail_launch(const plan::Plan& plan, const plan::Tail& tail, const Bound& bound,
                   const targets::DeviceLimits& limits);

// What follows is what the source of a tail kernel and its launch must agree on.

// Which function of kernels/common/tail.cuh or tail_blocks.cuh a tail instantiates.
enum class TailKind : std::uint8_t {
  elementwise,
  row_reduction,
  column_reduction,
  blocks,
  squares
};

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

}  // namespace epifuse::codegen
