// The points that `epifuse bench` measures, and everything on the device to run one.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "backends/cuda/memory.h"
#include "backends/cuda/vendor_gemm.h"
#include "epifuse/graph.h"
#include "results.h"
#include "tensors.h"

namespace epifuse::cli {

// A row of bench_grid.def.
struct Point {
  const char *suite, *workload;
  std::int64_t m, n, k;
  // Words in order, joined by `+`: identity, alpha (times a constant), bias and scale (plus and
  // times a row), residual (plus a full tensor), preact (a second result: what the first activation
  // is applied to), or the name of an activation.
  const char* epilogue;
};

std::span<const Point> all_points();
// The points of a suite whose text has `filter`. Throws ArgumentError when there are none.
std::vector<Point> find_points(const std::string& suite, const std::string& filter);

// "llama3_8b_down 4096x4096x14336 residual"
std::string text(const Point& point);
std::vector<std::string> epilogue_words(const Point& point);
// y[M, n], and z with preact, of x[M, k], w[n, k] and the operands that the epilogue names, bf16.
Graph graph_of(const Point& point);
// A row with the point's fields, divided by `cublas`.
ResultRow row_of(const Point& point, std::string contender, std::string numerics);

// A point's tensors on the host and on the device, and the bare product on them.
class PointTensors {
 public:
  PointTensors(const Point& point, const Graph& graph);

  HostTensors& host() { return host_; }
  TargetTensors& target() { return target_; }
  TensorView view(std::string_view name) const;  // on the device; InternalError when there is none
  // The bare vendor GEMM, into memory of its own.
  const std::function<void(Stream)>& bare() const { return bare_; }
  // The same with what cuBLASLt itself offers for the point's epilogue; empty when it offers
  // nothing.
  std::function<void(Stream)> vendor_epilogue() const;

 private:
  TensorView weights() const;  // w as [k, n]
  Point point_;
  HostTensors host_;
  TargetTensors target_;
  std::shared_ptr<const cuda::Device> device_;
  cuda::DeviceBuffer bare_result_;
  std::function<void(Stream)> bare_;
};

}  // namespace epifuse::cli
