// Products of one A, each with a B of its own, in one launch.
#include "backends/cuda/run/run_side_by_side.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "backends/cuda/run/run_parts.h"
#include "tune/shortlist.h"

namespace epifuse::cuda {
namespace {

const plan::FusedGemm& gemm_at(const Prepared& prepared, std::size_t step) {
  return std::get<plan::FusedGemm>(prepared.plan.steps[step]);
}

// Whether kernels of the family take all of them as they lie.
bool suit(const Prepared& prepared, codegen::StepRange range, const codegen::KernelFamily& family,
          const codegen::Bound& bound) {
  for (std::size_t i = range.first; i < range.first + range.count; ++i) {
    const plan::FusedGemm& step = gemm_at(prepared, i);
    if (tune::gemm_sizes(step.gemm, bound.sizes).is_empty()) return false;
    if (family.why_not_bound(prepared.plan, step, bound)) return false;
    if (!family.variant(prepared.plan, step, bound).is_empty()) return false;
  }
  return true;
}

// Steps that one launch can take.
struct Together {
  codegen::StepRange range;
  const codegen::KernelFamily* family;
  const codegen::SideBySideKind* kind;
  std::vector<codegen::GemmSizes> sizes;  // of each

  std::vector<std::int64_t> beside() const {
    std::vector<std::int64_t> columns;
    for (std::size_t i = 1; i < sizes.size(); ++i) columns.push_back(sizes[i].n);
    return columns;
  }
  tune::StepForm form() const { return {sizes.front(), {}, false, beside()}; }
};

std::optional<Together> find(const Prepared& prepared, std::size_t step, LateKernels& late,
                             const codegen::Bound& bound) {
  if (!late.compiles_for_sizes()) return std::nullopt;
  const codegen::StepRange range = late.range_at(prepared, step);
  if (range.count == 0) return std::nullopt;
  Together out{range, late.family_side_by_side(), nullptr, {}};
  const plan::FusedGemm& leader = gemm_at(prepared, step);
  const std::int64_t rows = tune::gemm_sizes(leader.gemm, bound.sizes).m;
  out.kind = codegen::kind_side_by_side(*out.family, leader, late.target(), rows);
  if (out.kind == nullptr || !suit(prepared, range, *out.family, bound)) return std::nullopt;
  for (std::size_t i = step; i < step + range.count; ++i) {
    out.sizes.push_back(tune::gemm_sizes(gemm_at(prepared, i).gemm, bound.sizes));
  }
  return out;
}

constexpr double kNever = std::numeric_limits<double>::infinity();

// The kernel that they run by.
struct Choice {
  Together steps;
  SideBySideKernel kernel;
  std::string grounds;
};

// The config that must take them: forced, or measured. "" where each runs alone.
std::optional<std::string> known_config(const Prepared& prepared, const Together& steps,
                                        const ChoiceRules& rules, std::string& grounds) {
  const auto config_of = [](std::string_view choice) {
    return std::string(choice.starts_with(tune::kSideBySide)
                           ? choice.substr(tune::kSideBySide.size())
                           : std::string_view());
  };
  const std::size_t first = steps.range.first;
  if (rules.forced != nullptr) {
    return rules.forced->step == first ? config_of(rules.forced->choice) : "";
  }
  if (rules.tuned == nullptr) return std::nullopt;
  const auto tuned = rules.tuned->find(prepared.plan, gemm_at(prepared, first), steps.form());
  if (!tuned) return std::nullopt;
  grounds = tuned->measured;
  return config_of(tuned->choice);
}

// What was measured, or else the kernel of least expected time for all of them, where that is less
// than `most_part` of what each takes alone. So where the measured one is none for so many rows, or
// compiles no more: sizes of one class share a choice.
std::optional<Choice> choose(const Prepared& prepared, std::size_t step, LateKernels& late,
                             const ChoiceRules& rules, const codegen::Bound& bound,
                             double most_part = 1) {
  auto steps = find(prepared, step, late, bound);
  if (!steps) return std::nullopt;
  std::string grounds;
  const auto known = known_config(prepared, *steps, rules, grounds);
  if (known == "") return std::nullopt;
  double alone_us = 0;
  for (std::size_t i = 0; i < steps->range.count; ++i) {
    alone_us += late.alone_us(prepared, step + i, steps->sizes[i], rules.device);
  }
  const auto us_of = [&](const codegen::GemmConfig& config) {
    return steps->kind->expected_us(gemm_at(prepared, step), config, steps->sizes, rules.device);
  };
  const auto us_of_known = [&](const codegen::GemmConfig& config) {
    return codegen::print(config) == known ? us_of(config) : kNever;
  };
  SideBySideKernel kernel;
  if (known) kernel = late.side_by_side(prepared, steps->range, *steps->kind, us_of_known, kNever);
  if (kernel.kernel == nullptr && rules.forced == nullptr) {
    kernel = late.side_by_side(prepared, steps->range, *steps->kind, us_of, most_part * alone_us);
    grounds = fmt::format("{:.1f} us expected of all, {:.1f} one by one", kernel.us, alone_us);
  }
  if (kernel.kernel == nullptr) return std::nullopt;
  return Choice{*std::move(steps), kernel, std::move(grounds)};
}

}  // namespace

std::size_t num_side_by_side(const Prepared& prepared, std::size_t step, LateKernels& late,
                             const ChoiceRules& rules, const codegen::Bound& bound,
                             double most_part) {
  const auto choice = choose(prepared, step, late, rules, bound, most_part);
  return choice ? choice->steps.range.count : 0;
}

std::optional<tune::StepForm> form_side_by_side(const Prepared& prepared, std::size_t step,
                                                LateKernels& late, const codegen::Bound& bound) {
  const auto steps = find(prepared, step, late, bound);
  if (!steps) return std::nullopt;
  return steps->form();
}

std::optional<Ways> ways_side_by_side(const Prepared& prepared, std::size_t step, LateKernels& late,
                                      const codegen::Bound& bound,
                                      const targets::DeviceProfile& device, std::size_t most,
                                      bool compiles) {
  const auto steps = find(prepared, step, late, bound);
  if (!steps) return std::nullopt;
  Ways ways{step, {}, {}, steps->beside()};
  ways.usual.sizes = steps->sizes.front();
  const auto add = [&](const Kernel& kernel) {
    std::string name = std::string(tune::kSideBySide) + codegen::print(kernel.config);
    if (!place(ways.names, name)) ways.names.push_back(std::move(name));
  };
  if (const auto usual = choose(prepared, step, late, {device}, bound)) add(*usual->kernel.kernel);
  ways.names.emplace_back(tune::kOneByOne);
  const plan::FusedGemm& leader = gemm_at(prepared, step);
  double least = kNever;
  for (const codegen::GemmConfig& config : steps->kind->configs(leader, late.target())) {
    least = std::min(least, steps->kind->expected_us(leader, config, steps->sizes, device));
  }
  const auto us_of = [&](const codegen::GemmConfig& config) {
    const double us = steps->kind->expected_us(leader, config, steps->sizes, device);
    return us > hopeless(device, most) * least ? kNever : us;
  };
  for (const Kernel* kernel :
       late.side_by_side_candidates(prepared, steps->range, *steps->kind, us_of, most, compiles)) {
    add(*kernel);
  }
  return ways;
}

std::size_t RunBuilder::add_side_by_side(const Prepared& prepared, std::size_t index) {
  const auto choice = choose(prepared, index, late_, rules_, bound_);
  if (!choice) return 0;
  const auto& [range, family, kind, sizes] = choice->steps;
  const Kernel& kernel = *choice->kernel.kernel;
  const codegen::GemmConfig& config = kernel.config;
  std::vector<codegen::Launch> parts;
  for (std::size_t i = range.first; i < range.first + range.count; ++i) {
    const plan::FusedGemm& step = gemm_at(prepared, i);
    plan_.plan.steps.emplace_back(step);
    plan_.how.push_back(fmt::format("{}, {}, side by side in one launch of {} steps", family->name,
                                    codegen::print(config), range.count));
    plan_.grounds.push_back(i == range.first ? choice->grounds : "");
    parts.push_back(family->launch(prepared.plan, step, config, {}, bound_, rules_.device.limits));
  }
  if (context_ != nullptr) add_launch(kernel, kind->launch(parts, config, rules_.device.limits));
  return range.count;
}

}  // namespace epifuse::cuda
