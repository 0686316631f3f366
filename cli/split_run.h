// The unfused pair that a fused product competes with: the vendor's product, and a tail kernel.
#pragma once

#include <functional>
#include <optional>
#include <span>

#include "epifuse/program.h"
#include "plan/plan.h"

namespace epifuse::cli {

// The plan of a graph that is one fused product, which ends in no reduction; nothing of others.
std::optional<plan::Plan> plan_of_product(const Graph& graph);

// Runs step 0 of a plan of one product so, on these tensors, in memory of its own. The tensors and
// the device outlive it. Throws UnavailableError without a GPU that epifuse has kernels for.
std::function<void()> split_run(const plan::Plan& plan, std::span<const Binding> tensors);

}  // namespace epifuse::cli
