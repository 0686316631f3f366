// The tables of targets and kernel families.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "codegen/kernel.h"
#include "codegen/sm90_dense.h"

namespace epifuse::codegen {
namespace {

constexpr TargetInfo kTargets[] = {
#define EPIFUSE_TARGET(name, kind, major, minor, smem, wgmma, tma) \
  {name, DeviceKind::kind, major, minor, smem, wgmma, tma},
#include "codegen/targets.def"
#undef EPIFUSE_TARGET
};

constexpr KernelFamily kFamilies[] = {
#define EPIFUSE_FAMILY(name, summary) \
  {#name,                             \
   summary,                           \
   name::why_not,                     \
   name::configs,                     \
   name::expected_us,                 \
   name::source,                      \
   name::why_not_bound,               \
   name::fitted,                      \
   name::variant,                     \
   name::partials,                    \
   name::launch},
#include "codegen/families.def"
#undef EPIFUSE_FAMILY
};

}  // namespace

std::span<const TargetInfo> all_targets() { return kTargets; }

const TargetInfo* find_target(std::string_view name) {
  for (const TargetInfo& target : kTargets) {
    if (target.name == name) return &target;
  }
  return nullptr;
}

std::span<const KernelFamily> all_families() { return kFamilies; }

std::size_t choose(const KernelFamily& family, const plan::FusedGemm& step,
                   std::span<const GemmConfig> configs, const GemmSizes& sizes,
                   const DeviceLimits& limits) {
  const auto expected_us = [&](std::size_t i) {
    return family.expected_us(step, configs[i], sizes, limits);
  };
  std::size_t best = 0;
  double best_us = expected_us(0);
  for (std::size_t i = 1; i < configs.size(); ++i) {
    const double us = expected_us(i);
    if (us >= best_us) continue;
    best_us = us;
    best = i;
  }
  return best;
}

std::string print(const GemmConfig& config) {
  const char* schedule = config.cooperative              ? "cooperative"
                         : sm90_dense::is_single(config) ? "single"
                                                         : "ping-pong";
  std::string text = fmt::format("{} {}x{}", schedule, config.tile_m, config.tile_n);
  if (config.two_widths) text += fmt::format("/{}", config.tile_n - 8);
  text += fmt::format(", {} stages", config.stages);
  if (config.shares_staging) text += ", shared staging";
  if (config.short_last) text += ", short last wave";
  if (config.cluster_m * config.cluster_n > 1) {
    text += fmt::format(", cluster {}x{}", config.cluster_m, config.cluster_n);
  }
  if (config.split_k > 1) text += fmt::format(", split-K {}", config.split_k);
  return text;
}

std::optional<GemmConfig> leaner(GemmConfig config) {
  constexpr int kFewestMathColumns = 16;
  if (config.math_columns <= kFewestMathColumns) return std::nullopt;
  config.math_columns /= 2;
  return config;
}

std::string print(const GemmVariant& variant) {
  std::vector<std::string> parts;
  if (variant.swapped) parts.emplace_back("roles of a and b swapped");
  if (variant.shifted_a) parts.emplace_back("a off 16-byte boundaries");
  if (variant.shifted_b) parts.emplace_back("b off 16-byte boundaries");
  if (variant.plain_loads != 0) parts.emplace_back("full operands read element by element");
  if (variant.plain_stores != 0) parts.emplace_back("results written element by element");
  if (variant.unpaired) parts.emplace_back("even and odd columns apart");
  return fmt::format("{}", fmt::join(parts, ", "));
}

void set_params(Launch& launch, const void* block, std::size_t bytes) {
  const auto* first = static_cast<const unsigned char*>(block);
  launch.params.assign(first, first + bytes);
}

}  // namespace epifuse::codegen
