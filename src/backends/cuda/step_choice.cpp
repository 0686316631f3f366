// Chooses how a fused step runs on the tensors at hand.
#include "backends/cuda/step_choice.h"

#include <fmt/format.h>

#include "tune/shortlist.h"
#include "tune/unfused.h"

namespace epifuse::cuda {
namespace {

plan::WhyNot no_kernel(const StepKernels& kernels) {
  std::string sentence =
      fmt::format("no kernel of {} compiles well for these tensors ({}):", kernels.family->name,
                  codegen::print(kernels.variant));
  for (const plan::WhyNot& no : kernels.report.why_not) sentence += " " + no.sentence;
  return {"no_variant", std::move(sentence)};
}

// The kernel of least expected time.
void choose_kernel(const plan::FusedGemm& gemm, const codegen::GemmSizes& sizes,
                   const codegen::DeviceLimits& limits, StepChoice& choice) {
  for (const Kernel& kernel : choice.kernels->kernels) {
    const double us = choice.kernels->family->expected_us(gemm, kernel.config, sizes, limits);
    if (choice.kernel != nullptr && us >= choice.expected_us) continue;
    choice.kernel = &kernel;
    choice.expected_us = us;
  }
}

// Never slower than what fusion replaces.
std::optional<plan::WhyNot> why_unfused(const StepChoice& choice) {
  if (!choice.unfused_us || !tune::is_clearly_slower(choice.expected_us, *choice.unfused_us)) {
    return std::nullopt;
  }
  return plan::WhyNot{
      "slower_than_unfused",
      fmt::format("the fused kernel ({}) is expected to take {:.1f} us, the "
                  "vendor's product and a tail {:.1f} us.",
                  codegen::print(choice.kernel->config), choice.expected_us, *choice.unfused_us)};
}

}  // namespace

StepChoice choose_step(const Prepared& prepared, std::size_t step, LateKernels& late,
                       const codegen::Bound& bound, const codegen::DeviceLimits& limits) {
  const StepKernels& usual = prepared.steps[step];
  const codegen::KernelFamily& family = *usual.family;
  const auto& gemm = std::get<plan::FusedGemm>(prepared.plan.steps[step]);
  StepChoice choice{&usual};
  choice.why_split = family.why_not_bound(prepared.plan, gemm, bound);
  if (choice.why_split) return choice;

  codegen::GemmSizes sizes = tune::gemm_sizes(gemm.gemm, bound.sizes);
  if (sizes.batch * sizes.m * sizes.n == 0) {
    choice.kernel = &usual.kernels.front();
    return choice;
  }
  choice.unfused_us = tune::unfused_us(gemm, sizes);
  const codegen::GemmVariant variant = family.variant(prepared.plan, gemm, bound);
  if (variant.swapped) std::swap(sizes.m, sizes.n);
  if (variant != usual.variant) choice.kernels = &late.variant(prepared, step, variant, sizes);
  if (choice.kernels->kernels.empty()) {
    choice.why_split = no_kernel(*choice.kernels);
    return choice;
  }
  choose_kernel(gemm, sizes, limits, choice);
  choice.why_split = why_unfused(choice);
  return choice;
}

std::string print(const StepChoice& choice) {
  std::string text =
      fmt::format("{}, {}", choice.kernels->family->name, codegen::print(choice.kernel->config));
  const std::string variant = codegen::print(choice.kernels->variant);
  return variant.empty() ? text : fmt::format("{}; {}", text, variant);
}

std::string grounds(const StepChoice& choice) {
  if (choice.expected_us == 0) return "";
  std::string text = fmt::format("{:.1f} us expected", choice.expected_us);
  if (choice.unfused_us) {
    text += fmt::format(", {:.1f} us as product and tail", *choice.unfused_us);
  }
  return text;
}

}  // namespace epifuse::cuda
