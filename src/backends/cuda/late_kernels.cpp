// Kernels that only certain tensors need, compiled when such tensors come.
#include "backends/cuda/late_kernels.h"

namespace epifuse::cuda {

const Prepared& LateKernels::split(const plan::Plan& plan, std::size_t step) {
  const std::scoped_lock lock(mutex_);
  const auto found = splits_.find(step);
  if (found != splits_.end()) return found->second;
  const auto& gemm = std::get<plan::FusedGemm>(plan.steps[step]);
  return splits_.emplace(step, prepare_split(plan, gemm, target_, *jit_)).first->second;
}

const Prepared& LateKernels::copy(DType from, DType to, std::size_t rank) {
  const std::scoped_lock lock(mutex_);
  const auto key = std::tuple(from, to, rank);
  const auto found = copies_.find(key);
  if (found != copies_.end()) return found->second;
  return copies_.emplace(key, prepare_copy(from, to, rank, target_, *jit_)).first->second;
}

}  // namespace epifuse::cuda
