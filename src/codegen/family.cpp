// The table of kernel families, and what follows from a row.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "codegen/family.h"
#include "codegen/sm90/dense.h"

namespace epifuse::codegen {
namespace {

constexpr KernelFamily kFamilies[] = {
#define EPIFUSE_FAMILY(folder, name, summary) \
  {name,                                      \
   summary,                                   \
   folder::why_not,                           \
   folder::configs,                           \
   folder::expected_us,                       \
   folder::source,                            \
   folder::why_not_bound,                     \
   folder::fitted,                            \
   folder::variant,                           \
   folder::partials,                          \
   folder::launch},
#include "codegen/families.def"
#undef EPIFUSE_FAMILY
};

}  // namespace

std::span<const KernelFamily> all_families() { return kFamilies; }

std::size_t choose(const KernelFamily& family, const plan::FusedGemm& step,
                   std::span<const GemmConfig> configs, const GemmSizes& sizes,
                   const targets::DeviceLimits& limits) {
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
  const char* schedule = config.cooperative        ? "cooperative"
                         : sm90::is_single(config) ? "single"
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

}  // namespace epifuse::codegen
