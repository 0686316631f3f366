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

struct Together {
  codegen::StepRange range;  // of no steps: each runs alone
  const codegen::KernelFamily* family = nullptr;
  const Kernel* kernel = nullptr;
  double us = 0, alone_us = 0;  // expected
};

// The kernel of least expected time for as many columns as all have together, where that is less
// than what each takes alone. None while a step is measured, which is then alone.
Together find(const Prepared& prepared, std::size_t step, LateKernels& late,
              const ChoiceRules& rules, const codegen::Bound& bound) {
  if (rules.forced != nullptr || !late.compiles_for_sizes()) return {};
  Together out{.range = late.range_at(prepared, step)};
  if (out.range.count == 0) return {};
  out.family = late.family_side_by_side();
  if (!suit(prepared, out.range, *out.family, bound)) return {};
  const plan::FusedGemm& leader = gemm_at(prepared, step);
  codegen::GemmSizes all = tune::gemm_sizes(leader.gemm, bound.sizes);
  all.n = 0;
  for (std::size_t i = step; i < step + out.range.count; ++i) {
    const codegen::GemmSizes sizes = tune::gemm_sizes(gemm_at(prepared, i).gemm, bound.sizes);
    all.n += sizes.n;
    out.alone_us += late.alone_us(prepared, i, sizes, rules.device);
  }
  for (const Kernel& kernel : late.side_by_side(prepared, out.range).kernels) {
    const double us = out.family->expected_us(leader, kernel.config, all, rules.device);
    if (out.kernel == nullptr || us < out.us) out.kernel = &kernel, out.us = us;
  }
  return out.kernel == nullptr || out.us >= out.alone_us ? Together{} : out;
}

}  // namespace

std::size_t num_side_by_side(const Prepared& prepared, std::size_t step, LateKernels& late,
                             const ChoiceRules& rules, const codegen::Bound& bound) {
  return find(prepared, step, late, rules, bound).range.count;
}

std::size_t RunBuilder::add_side_by_side(const Prepared& prepared, std::size_t index) {
  const auto [range, family, kernel, us, alone_us] = find(prepared, index, late_, rules_, bound_);
  if (range.count == 0) return 0;
  std::vector<codegen::Launch> parts;
  for (std::size_t i = range.first; i < range.first + range.count; ++i) {
    const plan::FusedGemm& step = gemm_at(prepared, i);
    plan_.plan.steps.emplace_back(step);
    plan_.how.push_back(fmt::format("{}, {}, side by side in one launch of {} steps", family->name,
                                    codegen::print(kernel->config), range.count));
    plan_.grounds.push_back(
        i == range.first ? fmt::format("{:.1f} us expected of all, {:.1f} one by one", us, alone_us)
                         : "");
    parts.push_back(
        family->launch(prepared.plan, step, kernel->config, {}, bound_, rules_.device.limits));
  }
  if (context_ != nullptr) add_launch(*kernel, family->side_by_side->launch(parts));
  return range.count;
}

}  // namespace epifuse::cuda
