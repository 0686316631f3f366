// The Hopper GEMM as a row of the table of families.
#include "codegen/family_row.h"
#include "codegen/sm90/dense.h"
#include "codegen/sm90/pointer_arrays.h"

namespace epifuse::codegen::sm90 {
namespace {

// Whether it has the instructions at all.
bool suits(const targets::TargetInfo& target) { return target.has_wgmma && target.has_tma; }

struct Functions {
  using Config = sm90::Config;
  using Variant = sm90::Variant;
  static constexpr auto why_not = sm90::why_not;
  static constexpr auto suits = sm90::suits;
  static constexpr auto configs = sm90::configs;
  static constexpr auto expected_us = sm90::expected_us;
  static constexpr auto source = sm90::source;
  static constexpr auto why_not_bound = sm90::why_not_bound;
  static constexpr auto fitted = sm90::fitted;
  static constexpr auto variant = sm90::variant;
  static constexpr auto roles = sm90::roles;
  static constexpr auto partials = sm90::partials;
  static constexpr auto launch = sm90::launch;
};

constexpr PointerArrayFunctions kPointerArrays{
    [](std::span<const GemmConfig> configs) {
      return opaque(pointer_array_configs(configs_as<Config>(configs)));
    },
    [](const plan::Plan& plan, const GemmConfig& config, const targets::TargetInfo& target) {
      return describe_source(plan, config.as<Config>(), target);
    },
    by_hand_source, problem_bytes,
    [](const plan::Plan& plan, const GemmConfig& config, const Launch& usual,
       const BoundPointerArrays& problems, const targets::DeviceLimits& limits, char* workspace) {
      return pointer_array_launches(plan, config.as<Config>(), usual, problems, limits, workspace);
    }};

}  // namespace

// Of the row in families.def.
KernelFamily family(std::string_view name, std::string_view summary) {
  KernelFamily out = family_row<Functions>(name, summary);
  out.pointer_arrays = &kPointerArrays;
  return out;
}

}  // namespace epifuse::codegen::sm90
