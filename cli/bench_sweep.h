// Times every config of a kernel family, to judge the one that its model chooses.
#pragma once

#include "bench_options.h"

namespace epifuse::cli {

// `epifuse bench --sweep`: rows of contender `candidate` for each point and config, checked against
// the reference, and of `cublas`, the baseline itself; what the model's choice loses to the best.
int sweep(const BenchOptions& options);

}  // namespace epifuse::cli
