// Products of one A, each with a B of its own, in one launch.
#include <fmt/format.h>

#include <limits>
#include <optional>
#include <string_view>
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

struct Together {
  codegen::StepRange range;  // of no steps: each runs alone
  const codegen::KernelFamily* family = nullptr;
  const codegen::SideBySideKind* kind = nullptr;
  SideBySideKernel kernel;
  double alone_us = 0;  // expected
};

// The config that is forced on these steps; "" where one of them is, which is then alone.
std::optional<std::string_view> forced_config(const ChoiceRules& rules, std::size_t step) {
  if (rules.forced == nullptr) return std::nullopt;
  const std::string_view choice = rules.forced->choice;
  if (rules.forced->step != step || !choice.starts_with(kSideBySide)) return "";
  return choice.substr(kSideBySide.size());
}

// The kernel of least expected time for all of them, where that is less than what each takes alone.
Together find(const Prepared& prepared, std::size_t step, LateKernels& late,
              const ChoiceRules& rules, const codegen::Bound& bound) {
  const auto forced = forced_config(rules, step);
  if (forced == "" || !late.compiles_for_sizes()) return {};
  Together out{.range = late.range_at(prepared, step)};
  if (out.range.count == 0) return {};
  out.family = late.family_side_by_side();
  const plan::FusedGemm& leader = gemm_at(prepared, step);
  const std::int64_t rows = tune::gemm_sizes(leader.gemm, bound.sizes).m;
  out.kind = codegen::kind_side_by_side(*out.family, leader, late.target(), rows);
  if (out.kind == nullptr || !suit(prepared, out.range, *out.family, bound)) return {};
  std::vector<codegen::GemmSizes> sizes;
  for (std::size_t i = step; i < step + out.range.count; ++i) {
    sizes.push_back(tune::gemm_sizes(gemm_at(prepared, i).gemm, bound.sizes));
    out.alone_us += late.alone_us(prepared, i, sizes.back(), rules.device);
  }
  constexpr double kNever = std::numeric_limits<double>::infinity();
  const auto us_of = [&](const codegen::GemmConfig& config) {
    if (forced && codegen::print(config) != *forced) return kNever;
    return out.kind->expected_us(leader, config, sizes, rules.device);
  };
  out.kernel =
      late.side_by_side(prepared, out.range, *out.kind, us_of, forced ? kNever : out.alone_us);
  return out.kernel.kernel == nullptr ? Together{} : out;
}

}  // namespace

std::size_t num_side_by_side(const Prepared& prepared, std::size_t step, LateKernels& late,
                             const ChoiceRules& rules, const codegen::Bound& bound) {
  return find(prepared, step, late, rules, bound).range.count;
}

std::size_t RunBuilder::add_side_by_side(const Prepared& prepared, std::size_t index) {
  const auto [range, family, kind, found, alone_us] = find(prepared, index, late_, rules_, bound_);
  if (range.count == 0) return 0;
  const codegen::GemmConfig& config = found.kernel->config;
  std::vector<codegen::Launch> parts;
  for (std::size_t i = range.first; i < range.first + range.count; ++i) {
    const plan::FusedGemm& step = gemm_at(prepared, i);
    plan_.plan.steps.emplace_back(step);
    plan_.how.push_back(fmt::format("{}, {}, side by side in one launch of {} steps", family->name,
                                    codegen::print(config), range.count));
    plan_.grounds.push_back(
        i == range.first
            ? fmt::format("{:.1f} us expected of all, {:.1f} one by one", found.us, alone_us)
            : "");
    parts.push_back(family->launch(prepared.plan, step, config, {}, bound_, rules_.device.limits));
  }
  if (context_ != nullptr) {
    add_launch(*found.kernel, kind->launch(parts, config, rules_.device.limits));
  }
  return range.count;
}

}  // namespace epifuse::cuda
