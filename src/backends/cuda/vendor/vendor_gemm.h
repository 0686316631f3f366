// Matrix products by cuBLASLt: any layouts, batches, bf16, f16 and f32 with f32 accumulation.
#pragma once

#include <compare>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "backends/cuda/driver/device.h"
#include "backends/cuda/run/product.h"
#include "backends/cuda/vendor/cublaslt_api.h"
#include "epifuse/program.h"

namespace epifuse::cuda {

// What cublasGemmEx gives its kernels on Hopper.
constexpr std::size_t kVendorWorkspaceBytes = std::size_t{32} << 20;

// What the library itself can do to a product on its way out:
// d = activation(alpha * a_scales * a * b * b_scales + residual + bias).
struct VendorEpilogue {
  enum class Activation : std::uint8_t { none, relu, gelu_tanh };
  float alpha = 1;
  Activation activation = Activation::none;
  const void* bias = nullptr;      // [n], of the result's dtype
  const void* residual = nullptr;  // laid out as d
  void* preact = nullptr;          // laid out as d; takes what enters gelu_tanh
  const void* a_scales = nullptr;  // [m] and [n], float32, both or none: of 8-bit floats
  const void* b_scales = nullptr;
  std::size_t workspace_bytes = kVendorWorkspaceBytes;  // that an algorithm may take
  auto operator<=>(const VendorEpilogue&) const = default;
};

// What the library's choice of algorithm depends on.
struct VendorProblem {
  DType operand = DType::bf16, result = DType::bf16;
  bool tf32 = false, rounds_partial_sums = false, promoted = false;
  std::int64_t m = 0, n = 0, k = 0;
  Leading a, b;
  std::int64_t d_stride = 0;  // D is row-major
  BatchDim batch;
  int a_alignment = 16, b_alignment = 16, d_alignment = 16;  // of the pointers, in bytes
  VendorEpilogue epilogue;
  auto operator<=>(const VendorProblem&) const = default;
};

// A problem with its descriptors and the algorithm: ready to launch.
struct VendorKernel;

// One matrix product on given memory.
struct VendorCall {
  std::shared_ptr<const VendorKernel> kernel;
  const void* a = nullptr;
  const void* b = nullptr;
  void* d = nullptr;
};

// The library in one context. All members may be called from any thread.
class VendorGemm {
 public:
  // Throws UnavailableError when there is no cuBLASLt.
  explicit VendorGemm(std::shared_ptr<const Device> device);
  ~VendorGemm();
  VendorGemm(const VendorGemm&) = delete;
  VendorGemm& operator=(const VendorGemm&) = delete;

  // The calls that do a simplified product with addressable matrices, none of them empty: one for
  // each index of the batch dims but the last. The algorithm is the first of the library's
  // heuristic, as cublasGemmEx takes it. An epilogue goes with products of one call. Throws
  // DeviceError when the library has no algorithm.
  std::vector<VendorCall> calls(const Product& product, const VendorEpilogue& epilogue = {});
  void run(const VendorCall& call, void* workspace, jit::CuStream stream) const;
  std::string version() const;  // "13.0.2"

 private:
  std::shared_ptr<const VendorKernel> kernel(const VendorProblem& problem);
  std::shared_ptr<const Device> device_;
  std::shared_ptr<const LtApi> api_;
  LtHandle handle_ = nullptr;
  std::mutex mutex_;
  std::map<VendorProblem, std::shared_ptr<const VendorKernel>> kernels_;
};

// The bare product d = a * b as a callable, with a workspace of its own: what benchmarks divide by.
// a is [.., m, k], b is [.., k, n] (a transposed view for K-major weights), d is [.., m, n]. Throws
// ArgumentError when cuBLASLt cannot address them as they are.
std::function<void(Stream)> bare_gemm(const std::shared_ptr<const Device>& device,
                                      const TensorView& a, const TensorView& b,
                                      const TensorView& d);

// The same with the library's own epilogue. Throws DeviceError when it has none for this product.
std::function<void(Stream)> epilogue_gemm(const std::shared_ptr<const Device>& device,
                                          const TensorView& a, const TensorView& b,
                                          const TensorView& d, const VendorEpilogue& epilogue);

}  // namespace epifuse::cuda
