// The Hopper GEMM as a row of the table of families: kernels by wgmma, and those for few rows.
#include <algorithm>
#include <iterator>

#include "codegen/family_row.h"
#include "codegen/sm90/dense.h"
#include "codegen/sm90/few_rows.h"
#include "codegen/sm90/model_constants.h"

namespace epifuse::codegen::sm90 {
namespace {

using plan::FusedGemm, plan::Plan, targets::DeviceLimits, targets::DeviceProfile,
    targets::TargetInfo;

// Whether it has the instructions at all.
bool suits(const TargetInfo& target) { return target.has_wgmma && target.has_tma; }

struct Functions {
  using Config = sm90::Config;
  using Variant = sm90::Variant;
  static constexpr auto why_not = sm90::why_not;
  static constexpr auto suits = sm90::suits;
  static std::vector<Config> configs(const FusedGemm& step, const TargetInfo& target) {
    std::vector<Config> out = sm90::configs(step, target);
    if (!out.empty()) std::ranges::copy(few_rows_configs(step), std::back_inserter(out));
    return out;
  }
  static double expected_us(const FusedGemm& step, const Config& config, const GemmSizes& sizes,
                            const DeviceProfile& device) {
    return is_for_few_rows(config) ? few_rows_us(step, config, sizes, device)
                                   : sm90::expected_us(step, config, sizes, device);
  }
  static KernelSource source(const Plan& plan, const FusedGemm& step, const Config& config,
                             const Variant& variant, const TargetInfo& target) {
    return is_for_few_rows(config) ? few_rows_source(plan, step, config, target)
                                   : sm90::source(plan, step, config, variant, target);
  }
  static constexpr auto why_not_bound = sm90::why_not_bound;
  static std::optional<Config> fitted(const FusedGemm& step, const Config& config,
                                      const Variant& variant, const TargetInfo& target) {
    return is_for_few_rows(config) ? few_rows_fitted(step, config, variant)
                                   : sm90::fitted(step, config, variant, target);
  }
  static constexpr auto variant = sm90::variant;
  static constexpr auto roles = sm90::roles;
  static constexpr auto partials = sm90::partials;
  static Launch launch(const Plan& plan, const FusedGemm& step, const Config& config,
                       const Variant& variant, const Bound& bound, const DeviceLimits& limits) {
    return is_for_few_rows(config) ? few_rows_launch(plan, step, config, bound)
                                   : sm90::launch(plan, step, config, variant, bound, limits);
  }
};

}  // namespace

// Of the row in families.def.
KernelFamily family(std::string_view name, std::string_view summary) {
  KernelFamily out = family_row<Functions>(name, summary);
  out.side_by_side = &side_by_side();
  out.pointer_arrays = &pointer_arrays();
  out.constants = named_constants;
  return out;
}

}  // namespace epifuse::codegen::sm90
