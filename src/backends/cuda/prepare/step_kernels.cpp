// What may run a step, before anything is compiled.
#include "backends/cuda/prepare/step_kernels.h"

#include <fmt/format.h>

#include <algorithm>

#include "codegen/grouped.h"
#include "codegen/k_major_copies.h"
#include "codegen/tail.h"
#include "codegen/transpose.h"
#include "tune/shortlist.h"
#include "tune/unfused.h"

namespace epifuse::cuda {
namespace {

using plan::FusedGemm;
using plan::is_bare;
using plan::Plan;
using plan::Tail;
using plan::WhyNot;
using targets::TargetInfo;

constexpr std::size_t kMostKernels = 6;  // compiled for one step ahead of all tensors

StepKernels vendor_kernels(const plan::GemmDesc& gemm, std::vector<WhyNot> refusals) {
  StepKernels step;
  step.kind = StepKind::vendor;
  step.report = {gemm.is_scaled()  ? "cuBLASLt, on copies of the operands in f32 with their scales"
                 : gemm.widens_b() ? "cuBLASLt, on a copy of b in 16 bits"
                 : gemm.has_narrow() ? "cuBLASLt, on copies of the operands in bf16"
                                     : "cuBLASLt",
                 std::move(refusals)};
  return step;
}

Finalize finalize_kernel(const FusedGemm& gemm, const TargetInfo& target) {
  Finalize finalize{plan::finalize(gemm), {}};
  finalize.kernel.source = codegen::tail_source(finalize.plan, finalize.tail(), target);
  return finalize;
}

}  // namespace

StepKernels tail_kernels(const Plan& plan, const Tail& tail, const TargetInfo& target) {
  StepKernels step;
  step.kind = StepKind::tail;
  step.kernels.push_back({{}, codegen::tail_source(plan, tail, target), nullptr});
  step.report.how = "tail kernel";
  return step;
}

StepKernels bare_kernels(const Plan& plan, const FusedGemm& gemm, const TargetInfo& target,
                         std::vector<WhyNot> refusals) {
  if (!gemm.gemm.has_groups()) return vendor_kernels(gemm.gemm, std::move(refusals));
  StepKernels step;
  step.kind = StepKind::grouped;
  FusedGemm multiplied = gemm;
  if (gemm.gemm.is_scaled()) multiplied.gemm.a.dtype = multiplied.gemm.b.dtype = DType::f32;
  step.kernels.push_back({{}, codegen::grouped_source(plan, multiplied, target), nullptr});
  step.report = {gemm.gemm.is_scaled()
                     ? "grouped kernel on CUDA cores, on copies of the operands in f32 with their "
                       "scales"
                     : "grouped kernel on CUDA cores",
                 std::move(refusals)};
  return step;
}

StepKernels family_kernels(const Plan& plan, FusedGemm& gemm, const TargetInfo& target, bool fuses,
                           const Choosing& choosing) {
  StepKernels step = vendor_kernels(gemm.gemm, {});
  const auto bare = [](std::string_view vendor_does_it) {
    return WhyNot{"bare_product",
                  fmt::format("nothing is fused into the product, {}.", vendor_does_it)};
  };
  const bool has_vendor = is_bare(gemm) && !gemm.gemm.has_groups() && !choosing.is_named &&
                          !gemm.gemm.has_narrow();  // which it is given widened
  if (has_vendor && !fuses) {
    step.report.why_not.push_back(bare("so the vendor's GEMM does it"));
    return step;
  }
  for (const auto* family : codegen::families_for(gemm, target, choosing.family)) {
    auto no = choosing.copies ? codegen::why_not_with_copies(*family, plan, gemm, target)
                              : family->why_not(plan, gemm, target);
    if (!no) {
      step.family = family;
      break;
    }
    if (choosing.is_named || codegen::suits(*family, target)) {
      step.report.why_not.push_back(*std::move(no));
    }
  }
  if (step.family == nullptr) return step;
  step.kind = StepKind::family;
  step.candidates = step.family->configs(gemm, target);
  step.sizes = tune::typical_sizes(gemm.gemm);
  if (has_vendor) {
    std::erase_if(step.sizes, [&](const auto& sizes) {
      return !tune::beats_vendor(tune::bare_ratio(gemm.gemm, sizes, choosing.device));
    });
  }
  if (step.sizes.empty()) {
    return vendor_kernels(gemm.gemm, {bare(choosing.device.known == nullptr
                                               ? "and ours was not measured on this device"
                                               : "and the vendor's GEMM is about as fast")});
  }
  step.most_kernels = kMostKernels;
  if (gemm.epilogue.reduces()) step.finalize = finalize_kernel(gemm, target);
  if (codegen::has_k_major_copies(gemm.gemm)) {
    step.transpose = Kernel{{}, codegen::transpose_source(target), nullptr};
  }
  return step;
}

}  // namespace epifuse::cuda
