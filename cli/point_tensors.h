// Everything on the device to run one point of the benchmark.
#pragma once

#include <functional>
#include <string_view>

#include "backends/cuda/driver/memory.h"
#include "backends/cuda/vendor/vendor_gemm.h"
#include "bench_points.h"
#include "tensors.h"

namespace epifuse::cli {

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
  // A copy on the device that reads and writes as many bytes together as the weights have.
  std::function<void(Stream)> copy_of_weights() const;

 private:
  std::function<void(Stream)> batched_bare(const TensorView& d) const;
  TensorView rows() const;
  TensorView weights() const;  // all columns, as [k, n] or of a gate [k, 2 n]
  TensorView joined_weights();
  Point point_;
  HostTensors host_;
  TargetTensors target_;
  std::shared_ptr<const cuda::Device> device_;
  cuda::DeviceBuffer bare_result_, bare_weights_;
  std::function<void(Stream)> bare_;
};

}  // namespace epifuse::cli
