// What the host pays: compile time, the road to a first launch, the cost of a launch.
#pragma once

#include <functional>
#include <vector>

#include "results.h"

namespace epifuse::cli {

// Suite "host", `us` alone. Workloads: compile (median of new kernels), first_launch (warm cache,
// from after driver initialisation to the end of the first launch call), launch (median of repeated
// calls of Program::run), layers_16 and layers_48 (of a chain, for each layer), with _moved on
// tensors that no call had before. Needs a GPU. `check` is called before anything is measured, when
// the driver may be asked.
std::vector<ResultRow> measure_host(const std::function<void()>& check);

}  // namespace epifuse::cli
