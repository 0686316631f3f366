// Measures programs, and cuBLASLt's own epilogues, against the bare vendor GEMM.
#pragma once

#include <vector>

#include "bench_options.h"
#include "bench_points.h"

namespace epifuse::cli {

// Rows of one point: `epifuse` at each level of numerics asked for, and `cublaslt-epilogue` where
// the library has one. Throws DeviceError when a result is wrong.
std::vector<ResultRow> measure_point(const Point& point, const BenchOptions& options);

}  // namespace epifuse::cli
