// The product of a step as a framework asks the vendor for it, on memory of its own, to be
// measured.
#pragma once

#include <cstddef>
#include <functional>
#include <vector>

#include "backends/cuda/driver/context.h"
#include "backends/cuda/prepare/prepare.h"
#include "backends/cuda/run/product.h"
#include "backends/cuda/vendor/vendor_gemm.h"
#include "codegen/bound.h"

namespace epifuse::cuda {

// Bytes that the products below take, on tensors of these sizes.
std::size_t framework_bytes(const Prepared& prepared, std::size_t step,
                            const codegen::Bound& bound);

// Results have the operands' dtype, of 8-bit floats bf16, whatever dtype the step's sums are
// rounded to first. Lives until the stream's work is done.
class FrameworkProducts {
 public:
  // `bound`: tensors of the step, with memory. `workspace`: kVendorWorkspaceBytes.
  FrameworkProducts(const Prepared& prepared, std::size_t step, Context& context,
                    const codegen::Bound& bound, void* workspace, jit::CuStream stream);

  FrameworkProducts(const FrameworkProducts&) = delete;
  FrameworkProducts& operator=(const FrameworkProducts&) = delete;

  // One product as it is, and one of padded operands behind copies of them, where rows begin off
  // 16-byte boundaries. None where the vendor cannot address the operands as they are.
  const std::vector<std::function<void()>>& runs() const { return runs_; }
  // What is to be added to the padded one: copies by their bytes, where the device's rate is known.
  // They are no part of the run then, as the driver's take longer than a framework's kernels.
  double copies_us() const { return copies_us_; }

 private:
  struct Copy {
    jit::CuDevicePtr to, from;
    std::size_t bytes;
  };
  void add(const Product& product, const VendorEpilogue& epilogue, std::vector<Copy> copies);
  Copy copy_to_pad(StridedMatrix& matrix, std::size_t bytes, std::size_t readable);

  Context& context_;
  void* workspace_;
  jit::CuStream stream_;
  std::vector<DeviceBuffer> buffers_;
  std::vector<std::function<void()>> runs_;
  double copies_us_ = 0;
};

}  // namespace epifuse::cuda
