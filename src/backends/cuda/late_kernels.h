// Kernels that only certain tensors need, compiled when such tensors come: copies of operands that
// no GEMM can address, and the split form of fused steps.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <tuple>

#include "backends/cuda/prepare.h"

namespace epifuse::cuda {

// Thread-safe; results stay valid as long as the object.
class LateKernels {
 public:
  LateKernels(const codegen::TargetInfo& target, std::shared_ptr<jit::Jit> jit)
      : target_(target), jit_(std::move(jit)) {}

  const Prepared& split(const plan::Plan& plan, std::size_t step);
  const Prepared& copy(DType from, DType to, std::size_t rank);

 private:
  const codegen::TargetInfo& target_;
  std::shared_ptr<jit::Jit> jit_;
  std::mutex mutex_;
  std::map<std::size_t, Prepared> splits_;
  std::map<std::tuple<DType, DType, std::size_t>, Prepared> copies_;
};

}  // namespace epifuse::cuda
