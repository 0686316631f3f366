// What runs a step where nothing was measured or forced.
#include "backends/cuda/choose/model_choice.h"

#include <algorithm>
#include <string>
#include <vector>

#include "epifuse/error.h"

namespace epifuse::cuda {
namespace {

// At sizes unlike all typical ones a candidate that was not compiled ahead may promise clearly more
// than those that were: it is compiled now, once.
void look_further(const Prepared& prepared, std::size_t step, LateKernels& late,
                  const targets::DeviceProfile& device, StepChoice& choice) {
  if (!late.compiles_for_sizes()) return;
  const StepKernels& kernels = *choice.kernels;
  const auto& gemm = std::get<plan::FusedGemm>(prepared.plan.steps[step]);
  const auto best =
      worth_compiling(kernels, gemm, choice.sizes, choice.expected_us, late.times(), device);
  if (!best) return;
  const std::string name = candidate_name(kernels, kernels.candidates[best->index]);
  try {
    const Kernel* kernel = late.candidate(prepared, step, kernels, name);
    if (kernel == nullptr) return;
    choice.kernel = kernel;
    choice.expected_us = best->us;
  } catch (const UnavailableError&) {  // no compiler here: what is there does
  }
}

}  // namespace

TimeMemo::Best best_compiled(const StepKernels& kernels, const plan::FusedGemm& gemm,
                             const codegen::GemmSizes& sizes, TimeMemo& times,
                             const targets::DeviceProfile& device) {
  std::vector<codegen::GemmConfig> configs;
  for (const Kernel& kernel : kernels.kernels) configs.push_back(kernel.config);
  return times.best(*kernels.family, gemm, configs, sizes, device);
}

std::optional<TimeMemo::Best> worth_compiling(const StepKernels& kernels,
                                              const plan::FusedGemm& gemm,
                                              const codegen::GemmSizes& sizes, double compiled_us,
                                              TimeMemo& times,
                                              const targets::DeviceProfile& device) {
  constexpr double kClearly = 0.985;  // of the time of what is compiled
  const TimeMemo::Best best = times.best(*kernels.family, gemm, kernels.candidates, sizes, device);
  if (best.us > kClearly * compiled_us) return std::nullopt;
  return best;
}

std::vector<TimeMemo::Best> by_expected_us(const StepKernels& kernels, const plan::FusedGemm& gemm,
                                           const codegen::GemmSizes& sizes,
                                           const targets::DeviceProfile& device) {
  std::vector<TimeMemo::Best> out;
  for (std::size_t i = 0; i < kernels.candidates.size(); ++i) {
    out.push_back({i, kernels.family->expected_us(gemm, kernels.candidates[i], sizes, device)});
  }
  std::ranges::stable_sort(out, {}, &TimeMemo::Best::us);
  return out;
}

std::optional<double> expected_of_variant(const StepKernels& usual, const plan::FusedGemm& gemm,
                                          const codegen::GemmVariant& variant, Operands operands,
                                          const codegen::GemmSizes& sizes, LateKernels& late,
                                          const targets::DeviceProfile& device) {
  std::vector<codegen::GemmConfig> configs;
  for (const codegen::GemmConfig& config : usual.candidates) {
    const auto fitted = usual.family->fitted(gemm, config, variant, late.target());
    if (fitted) configs.push_back(operands == Operands::aligned ? config : *fitted);
  }
  if (configs.empty()) return std::nullopt;
  return late.times().best(*usual.family, gemm, configs, sizes, device).us;
}

void choose_kernel(const plan::FusedGemm& gemm, const codegen::GemmSizes& sizes, LateKernels& late,
                   const targets::DeviceProfile& device, StepChoice& choice) {
  const TimeMemo::Best best = best_compiled(*choice.kernels, gemm, sizes, late.times(), device);
  choice.kernel = &choice.kernels->kernels[best.index];
  choice.expected_us = best.us;
}

void choose_by_model(const Prepared& prepared, std::size_t step, LateKernels& late,
                     const targets::DeviceProfile& device, StepChoice& choice) {
  if (const auto known = late.chosen().find(*choice.kernels, choice.sizes, device)) {
    choice.kernel = known->kernel;
    choice.expected_us = known->expected_us;
    return;
  }
  choose_kernel(std::get<plan::FusedGemm>(prepared.plan.steps[step]), choice.sizes, late, device,
                choice);
  look_further(prepared, step, late, device, choice);
  late.chosen().add(*choice.kernels, choice.sizes, device, {choice.kernel, choice.expected_us});
}

}  // namespace epifuse::cuda
