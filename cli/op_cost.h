// What an op costs on the GPU: clocks that a multiprocessor full of threads needs for it.
#pragma once

#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "codegen/launch.h"
#include "epifuse/program.h"
#include "ir/op.h"

namespace epifuse::cli {

// Clocks that one multiprocessor takes for 128 results, one for each of its lanes: 1 is the cost of
// an addition. Measured for each (op, level), on every multiprocessor at once, by applying the op
// to independent registers over and over; the empty loop is subtracted. Operands are spread over
// [-4, 4], or [1/16, 4] where the op takes no negative ones. Throws UnavailableError without a GPU.
std::vector<double> measure_clocks(const std::vector<std::pair<ir::Op, Numerics>>& ops);

// The kernel that is timed: the loop around one op, or the empty one.
codegen::KernelSource op_cost_source(std::optional<ir::Op> op, Numerics numerics,
                                     std::string_view arch);

}  // namespace epifuse::cli
