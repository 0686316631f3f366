// Checks what a program computed against the float64 reference (docs/numerics.md).
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "backends/reference/evaluate.h"
#include "epifuse/program.h"
#include "plan/plan.h"
#include "targets/targets.h"

namespace epifuse {

// How the reference is to round so that it follows this plan of `graph`: which values pass through
// memory, and which are read both from there and from registers. `target`: of the device that runs
// it.
reference::Options reference_options(const ir::Graph& graph, const plan::Plan& plan,
                                     const targets::TargetInfo& target);

// Compares host outputs of `program`, bound beside its inputs, with the reference of its graph
// after the passes (whose values the plan names). `placed`: the same tensors as the program ran on
// them, on its device.
std::vector<reference::Verdict> verify_program(const Program& program,
                                               std::span<const Binding> tensors,
                                               std::span<const Binding> placed,
                                               std::int64_t max_elements = std::int64_t{1} << 22,
                                               std::uint64_t seed = 0);

// The same of one of many problems, as Program::run_pointer_arrays runs it.
std::vector<reference::Verdict> verify_problem(const Program& program,
                                               std::span<const Binding> tensors,
                                               std::span<const Binding> placed);

// Whether the passes kept the meaning of the program's graph on these inputs: every float64 value
// must lie within the bounds of the graph as it was given. The first one that does not, as text.
std::optional<std::string> passes_error(const Program& program, std::span<const Binding> tensors);

}  // namespace epifuse
