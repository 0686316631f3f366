// Which sizes share a measured choice.
#include "backends/cuda/choose/size_class.h"

#include "backends/cuda/choose/aligned_copies.h"
#include "tune/shortlist.h"

namespace epifuse::cuda {

// As step_choice.cpp makes the form that a choice is kept by. Tensors that no kernel can address
// are copied first; the rows of their copies are as many.
tune::SizeClass size_class(const Prepared& prepared, const codegen::Bound& bound) {
  tune::SizeClass out;
  for (std::size_t i = 0; i < prepared.steps.size(); ++i) {
    if (prepared.steps[i].kind != StepKind::family) continue;
    const codegen::KernelFamily& family = *prepared.steps[i].family;
    const auto& gemm = std::get<plan::FusedGemm>(prepared.plan.steps[i]);
    const ReadTensors read(gemm, bound);
    codegen::GemmSizes sizes = tune::gemm_sizes(gemm.gemm, read.bound());
    if (!sizes.is_empty() && !family.why_not_bound(prepared.plan, gemm, read.bound())) {
      const codegen::GemmVariant variant = family.variant(prepared.plan, gemm, read.bound());
      if (family.roles(variant).are_exchanged) sizes = codegen::exchanged(sizes);
      out.variant += codegen::key(variant);
    }
    out.variant += '\n';
    out.sizes += tune::class_text(sizes) + '\n';
  }
  return out;
}

}  // namespace epifuse::cuda
