// The cp.async + mma.sync GEMM as a row of the table of families.
#include "codegen/family_row.h"
#include "codegen/pointer_array_sources.h"
#include "codegen/sm80/gemm.h"
#include "codegen/sm80/model_constants.h"
#include "codegen/sm80/pointer_arrays.h"

namespace epifuse::codegen::sm80 {
namespace {

struct Functions {
  using Config = sm80::Config;
  using Variant = sm80::Variant;
  static constexpr auto why_not = sm80::why_not;
  static constexpr auto suits = sm80::suits;
  static constexpr auto configs = sm80::configs;
  static constexpr auto expected_us = sm80::expected_us;
  static constexpr auto source = sm80::source;
  static constexpr auto why_not_bound = sm80::why_not_bound;
  static constexpr auto fitted = sm80::fitted;
  static constexpr auto variant = sm80::variant;
  static constexpr auto roles = sm80::roles;
  static constexpr auto partials = sm80::partials;
  static constexpr auto scratch = sm80::scratch;
  static constexpr auto launch = sm80::launch;
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
  out.constants = named_constants;
  return out;
}

}  // namespace epifuse::codegen::sm80
