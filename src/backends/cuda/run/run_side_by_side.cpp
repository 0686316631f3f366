// Products of one A, each with a B of its own, in one launch: few rows leave a launch little to do.
#include <fmt/format.h>

#include <algorithm>

#include "backends/cuda/run/run_parts.h"
#include "tune/shortlist.h"

namespace epifuse::cuda {
namespace {

const plan::FusedGemm& gemm_at(const Prepared& prepared, std::size_t step) {
  return std::get<plan::FusedGemm>(prepared.plan.steps[step]);
}

// Whether the kernels for few rows take all of them as they lie.
bool suit(const Prepared& prepared, codegen::StepRange range, const codegen::KernelFamily& family,
          const codegen::Bound& bound) {
  for (std::size_t i = range.first; i < range.first + range.count; ++i) {
    const plan::FusedGemm& step = gemm_at(prepared, i);
    const codegen::GemmSizes sizes = tune::gemm_sizes(step.gemm, bound.sizes);
    if (sizes.is_empty() || sizes.m > family.side_by_side->most_rows) return false;
    if (family.why_not_bound(prepared.plan, step, bound)) return false;
    if (!family.variant(prepared.plan, step, bound).is_empty()) return false;
  }
  return true;
}

struct Timed {
  const Kernel* kernel = nullptr;
  double us = 0;
};

// The kernel of least expected time for as many columns as all have together.
Timed best(const SideBySideKernels& kernels, const Prepared& prepared, codegen::StepRange range,
           const codegen::Bound& bound, const targets::DeviceProfile& device) {
  const plan::FusedGemm& leader = gemm_at(prepared, range.first);
  codegen::GemmSizes sizes = tune::gemm_sizes(leader.gemm, bound.sizes);
  for (std::size_t i = 1; i < range.count; ++i) {
    sizes.n += tune::gemm_sizes(gemm_at(prepared, range.first + i).gemm, bound.sizes).n;
  }
  Timed out;
  for (const Kernel& kernel : kernels.kernels) {
    const double us = kernels.family->expected_us(leader, kernel.config, sizes, device);
    if (out.kernel == nullptr || us < out.us) out = {&kernel, us};
  }
  return out;
}

}  // namespace

// Not while a step is measured, which is then alone.
std::size_t num_side_by_side(const Prepared& prepared, std::size_t step, LateKernels& late,
                             const ChoiceRules& rules, const codegen::Bound& bound) {
  if (rules.forced != nullptr || !late.compiles_for_sizes()) return 0;
  const codegen::StepRange range = late.range_at(prepared, step);
  if (range.count == 0) return 0;
  if (!suit(prepared, range, *late.family_of(prepared, range), bound)) return 0;
  return late.side_by_side(prepared, range).kernels.empty() ? 0 : range.count;
}

std::size_t RunBuilder::add_side_by_side(const Prepared& prepared, std::size_t index) {
  const std::size_t together = num_side_by_side(prepared, index, late_, rules_, bound_);
  if (together == 0) return 0;
  const codegen::StepRange range{index, together};
  const SideBySideKernels& kernels = late_.side_by_side(prepared, range);
  const codegen::KernelFamily* const family = kernels.family;
  const auto [kernel, us] = best(kernels, prepared, range, bound_, rules_.device);
  std::vector<codegen::Launch> parts;
  for (std::size_t i = range.first; i < range.first + range.count; ++i) {
    const plan::FusedGemm& step = gemm_at(prepared, i);
    plan_.plan.steps.emplace_back(step);
    plan_.how.push_back(fmt::format("{}, {}, side by side in one launch of {} steps", family->name,
                                    codegen::print(kernel->config), range.count));
    plan_.grounds.push_back(i == range.first ? fmt::format("{:.1f} us expected of all", us) : "");
    parts.push_back(
        family->launch(prepared.plan, step, kernel->config, {}, bound_, rules_.device.limits));
  }
  if (context_ != nullptr) add_launch(*kernel, family->side_by_side->launch(parts));
  return range.count;
}

}  // namespace epifuse::cuda
