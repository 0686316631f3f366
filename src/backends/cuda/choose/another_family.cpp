// Kernels of another family than a step's own.
#include "backends/cuda/choose/another_family.h"

#include "backends/cuda/choose/model_choice.h"
#include "codegen/k_major_copies.h"
#include "codegen/product_roles.h"
#include "epifuse/error.h"
#include "tune/shortlist.h"

namespace epifuse::cuda {

const StepKernels* others_kernels(const Prepared& prepared, std::size_t step, LateKernels& late,
                                  const codegen::Bound& bound, const StepChoice& choice) {
  const codegen::OperandRoles roles = prepared.steps[step].family->roles(choice.variant);
  const auto& gemm = std::get<plan::FusedGemm>(prepared.plan.steps[step]).gemm;
  const bool is_best_case =
      !roles.are_misaligned() && gemm.a.lookup < 0 && !codegen::has_k_major_copies(gemm);
  if (prepared.is_named || is_best_case) return nullptr;
  return late.another(prepared, step, bound, roles, choice.sizes);
}

void choose_another(const Prepared& prepared, std::size_t step, LateKernels& late,
                    const codegen::Bound& bound, const targets::DeviceProfile& device,
                    StepChoice& choice) {
  const auto& gemm = std::get<plan::FusedGemm>(prepared.plan.steps[step]);
  if (codegen::has_vendor(gemm.gemm) || prepared.is_named || choice.sizes.is_empty()) return;
  for (const bool are_exchanged : {false, true}) {
    codegen::OperandRoles roles;
    roles.are_exchanged = are_exchanged;
    const codegen::GemmSizes sizes =
        are_exchanged ? codegen::exchanged(choice.sizes) : choice.sizes;
    const StepKernels* const others = late.another(prepared, step, bound, roles, sizes);
    if (others == nullptr) continue;
    choice.kernels = others;
    choice.sizes = sizes;
    choice.why_split.reset();
    choice.variant = others->variant;
    return choose_by_model(prepared, step, late, device, choice);
  }
}

void weigh_without_copies(const Prepared& prepared, std::size_t step, LateKernels& late,
                          const codegen::Bound& bound, const targets::DeviceProfile& device,
                          StepChoice& choice) {
  if (!late.compiles_for_sizes() || device.known == nullptr) return;
  const codegen::OperandRoles roles = prepared.steps[step].family->roles(choice.variant);
  const auto another = late.find_another(prepared, step, bound, roles);
  if (!another) return;
  const plan::FusedGemm gemm = as_multiplied(prepared, step, *another->family);
  StepChoice other = choice;
  const codegen::GemmSizes sizes = tune::gemm_sizes(gemm.gemm, bound);  // of rows as they lie
  other.sizes = roles.are_exchanged ? codegen::exchanged(sizes) : sizes;
  const auto us = expected_of_variant(*another, gemm, another->variant, Operands::of_variant,
                                      other.sizes, late, device);
  if (!us || *us >= choice.expected_us) return;
  try {
    other.kernels = late.another(prepared, step, bound, roles, other.sizes);
  } catch (const UnavailableError&) {  // no compiler here: what is there does
    return;
  }
  if (other.kernels == nullptr) return;
  choose_by_model(prepared, step, late, device, other);
  if (other.expected_us >= choice.expected_us) return;
  other.sizes = choice.sizes;  // what is measured goes by those
  choice = std::move(other);
}

}  // namespace epifuse::cuda
