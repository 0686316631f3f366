// Measures programs, and cuBLASLt's own epilogues, against the bare vendor GEMM.
#pragma once

#include <vector>

#include "bench_options.h"
#include "bench_points.h"

namespace epifuse::cli {

struct Measured {
  std::vector<ResultRow> rows;
  std::vector<std::string> wrong;  // what is, of results that have no row for it
};

// Rows of one point: `epifuse` at each level of numerics asked for, `cublaslt-epilogue` where the
// library has one, and in suite small, of few rows, `copy`: as many bytes as the weights have,
// half of them read and half written.
Measured measure_point(const Point& point, const BenchOptions& options);

// Compiles what the points need, in parallel, into the kernel cache.
void compile_ahead(const std::vector<Point>& points, const BenchOptions& options);

}  // namespace epifuse::cli
