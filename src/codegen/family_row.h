// Makes a row of the table of families from functions that take a family's own types.
#pragma once

#include <algorithm>
#include <iterator>
#include <span>
#include <vector>

#include "codegen/family.h"
#include "codegen/pointer_array_sources.h"

namespace epifuse::codegen {

template <class T>
std::vector<GemmConfig> opaque(const std::vector<T>& configs) {
  std::vector<GemmConfig> out;
  out.reserve(configs.size());
  for (const T& config : configs) out.emplace_back(config);
  return out;
}
template <class T>
std::vector<T> configs_as(std::span<const GemmConfig> configs) {
  std::vector<T> out;
  out.reserve(configs.size());
  for (const GemmConfig& config : configs) out.push_back(config.as<T>());
  return out;
}

// The table of a family that does many problems: `F` names the types Config and Variant, and has
// the functions of PointerArrayFunctions as static members that take these.
template <class F>
inline constexpr PointerArrayFunctions kPointerArraysOf{
    [](std::span<const GemmConfig> configs) {
      return opaque(F::configs(configs_as<typename F::Config>(configs)));
    },
    [](const GemmVariant& variant) { return F::takes(variant_as<typename F::Variant>(variant)); },
    [](const plan::Plan& plan, const GemmConfig& config, const GemmVariant& variant,
       const targets::TargetInfo& target) {
      return F::describe_source(plan, config.as<typename F::Config>(),
                                variant_as<typename F::Variant>(variant), target);
    },
    F::by_hand_source,
    problem_bytes,
    [](const plan::Plan& plan, const GemmConfig& config, const Launch& usual,
       const BoundPointerArrays& problems, const targets::DeviceLimits& limits, char* workspace) {
      return F::launches(plan, config.as<typename F::Config>(), usual, problems, limits, workspace);
    }};

// `F` names the types Config and Variant, and has the functions of KernelFamily as static members
// that take these; `suits` and `scratch` may be missing.
template <class F>
KernelFamily family_row(std::string_view name, std::string_view summary) {
  using Config = typename F::Config;
  using Variant = typename F::Variant;
  using plan::FusedGemm, plan::Plan, targets::DeviceLimits, targets::DeviceProfile,
      targets::TargetInfo;
  KernelFamily out{};
  out.name = name;
  out.summary = summary;
  out.why_not = F::why_not;
  if constexpr (requires { F::suits; }) out.suits = F::suits;
  out.configs = [](const FusedGemm& step, const TargetInfo& target) {
    return opaque(F::configs(step, target));
  };
  out.expected_us = [](const FusedGemm& step, const GemmConfig& config, const GemmSizes& sizes,
                       const DeviceProfile& device) {
    return F::expected_us(step, config.as<Config>(), sizes, device);
  };
  out.source = [](const Plan& plan, const FusedGemm& step, const GemmConfig& config,
                  const GemmVariant& variant, const TargetInfo& target) {
    return F::source(plan, step, config.as<Config>(), variant_as<Variant>(variant), target);
  };
  out.why_not_bound = F::why_not_bound;
  out.fitted = [](const FusedGemm& step, const GemmConfig& config, const GemmVariant& variant,
                  const TargetInfo& target) -> std::optional<GemmConfig> {
    const auto fitted = F::fitted(step, config.as<Config>(), variant_as<Variant>(variant), target);
    if (!fitted) return std::nullopt;
    return GemmConfig(*fitted);
  };
  out.variant = [](const Plan& plan, const FusedGemm& step, const Bound& bound) {
    return make_variant(F::variant(plan, step, bound));
  };
  out.roles = [](const GemmVariant& variant) { return F::roles(variant_as<Variant>(variant)); };
  out.partials = [](const FusedGemm& step, const GemmConfig& config, const GemmVariant& variant,
                    const Sizes& sizes, const DeviceLimits& limits) {
    return F::partials(step, config.as<Config>(), variant_as<Variant>(variant), sizes, limits);
  };
  if constexpr (requires { F::scratch; }) {
    out.scratch = [](const FusedGemm& step, const GemmConfig& config, const GemmVariant& variant,
                     const Sizes& sizes, const DeviceLimits& limits) {
      return F::scratch(step, config.as<Config>(), variant_as<Variant>(variant), sizes, limits);
    };
  }
  out.launch = [](const Plan& plan, const FusedGemm& step, const GemmConfig& config,
                  const GemmVariant& variant, const Bound& bound, const DeviceLimits& limits) {
    return F::launch(plan, step, config.as<Config>(), variant_as<Variant>(variant), bound, limits);
  };
  return out;
}

}  // namespace epifuse::codegen
