// A step's kernel for aligned operands, behind copies of those that are misaligned.
#include "backends/cuda/choose/behind_copies.h"

#include <string>
#include <vector>

#include "backends/backend.h"
#include "backends/cuda/choose/aligned_copies.h"
#include "backends/cuda/choose/model_choice.h"
#include "epifuse/error.h"

namespace epifuse::cuda {

std::optional<BehindCopies> behind_copies(const Prepared& prepared, std::size_t step,
                                          LateKernels& late, codegen::Bound bound,
                                          const targets::DeviceProfile& device,
                                          const codegen::GemmSizes& sizes, double most_us,
                                          std::string_view named) {
  const StepKernels& usual = prepared.steps[step];
  const auto& gemm = std::get<plan::FusedGemm>(prepared.plan.steps[step]);
  if (size_bytes(gemm.gemm.a.dtype) < 2) return {};  // no copies of 8-bit floats were tried
  const std::vector<AlignedCopy> to_copy = aligned_copies(gemm, bound);
  for (const AlignedCopy& copy : to_copy) {
    bound[copy.operand] = copy.to;
    bound[copy.operand].data = backends::stand_in_address();
  }
  if (to_copy.empty() || usual.family->why_not_bound(prepared.plan, gemm, bound)) return {};
  const codegen::GemmVariant variant = usual.family->variant(prepared.plan, gemm, bound);
  const codegen::OperandRoles roles = usual.family->roles(variant);
  if (roles.are_misaligned()) return {};
  StepChoice aligned{roles.are_exchanged ? codegen::exchanged(sizes) : sizes};
  const double copies = copies_us(to_copy, device);
  const auto least_us =
      expected_of_variant(usual, gemm, variant, Operands::of_variant, aligned.sizes, late, device)
          .value_or(most_us);
  if (least_us + copies > most_us) return {};
  try {
    aligned.kernels =
        variant == usual.variant ? &usual : &late.variant(prepared, step, variant, aligned.sizes);
    if (aligned.kernels->kernels.empty()) return {};
    if (named.empty()) {
      choose_by_model(prepared, step, late, device, aligned);
    } else {
      aligned.kernel = late.candidate(prepared, step, *aligned.kernels, std::string(named));
      if (aligned.kernel == nullptr) return {};
      aligned.expected_us =
          usual.family->expected_us(gemm, aligned.kernel->config, aligned.sizes, device);
    }
    const double us = aligned.expected_us + copies;
    if (us > most_us) return {};
    for (const AlignedCopy& copy : to_copy) {
      const DType dtype = prepared.plan.graph[copy.operand].type.dtype;
      late.copy(dtype, dtype, copy.to.layout.shape.size());
    }
    return BehindCopies{aligned.sizes, aligned.kernels, aligned.kernel, us};
  } catch (const UnavailableError&) {
    return {};
  }
}

}  // namespace epifuse::cuda
