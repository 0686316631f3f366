#include "codegen/sm90/config.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <vector>

#include "codegen/sm90/dense.h"

namespace epifuse::codegen::sm90 {

std::string print(const Config& config) {
  if (is_for_few_rows(config)) {
    return fmt::format("few rows {}x{}, {} warps{}{}", config.tile_m, config.tile_n, config.warps,
                       config.split_k > 1 ? fmt::format(", split-K {}", config.split_k) : "",
                       config.ctas > 0 ? fmt::format(", {} CTAs an SM", config.ctas) : "");
  }
  const char* schedule = config.cooperative        ? "cooperative"
                         : is_one_consumer(config) ? "one-consumer"
                                                   : "ping-pong";
  std::string text = fmt::format("{} {}x{}", schedule, config.tile_m, config.tile_n);
  if (config.two_widths) text += fmt::format("/{}", config.tile_n - 8);
  text += fmt::format(", {} stages", config.stages);
  if (config.cluster_m * config.cluster_n > 1) {
    text += fmt::format(", cluster {}x{}", config.cluster_m, config.cluster_n);
  }
  if (config.split_k > 1) text += fmt::format(", split-K {}", config.split_k);
  if (config.swapped) text += ", swapped";
  return text;
}

std::optional<Config> leaner(Config config) {
  constexpr int kFewestMathColumns = 16;
  if (is_for_few_rows(config)) {
    if (config.stages == 1) return std::nullopt;
    --config.stages;
    return config;
  }
  if (config.math_columns <= kFewestMathColumns) return std::nullopt;
  config.math_columns /= 2;
  return config;
}

std::string print(const Variant& variant) {
  std::vector<std::string> parts;
  if (variant.swapped) parts.emplace_back("roles of a and b swapped");
  if (variant.misaligned_a) parts.emplace_back("a off 16-byte boundaries");
  if (variant.misaligned_b) parts.emplace_back("b off 16-byte boundaries");
  if (variant.paired_loads != 0) parts.emplace_back("full operands read two elements at a time");
  if (variant.non_tma_loads != variant.paired_loads) {
    parts.emplace_back("full operands read element by element");
  }
  if (variant.copied_stores != 0) parts.emplace_back("results off 16-byte boundaries");
  if (variant.non_tma_stores != variant.copied_stores) {
    parts.emplace_back("results written element by element");
  }
  if (variant.unpaired) parts.emplace_back("even and odd columns apart");
  return fmt::format("{}", fmt::join(parts, ", "));
}

OperandRoles roles(const Variant& variant) {
  return {variant.swapped, variant.misaligned_a, variant.misaligned_b};
}

std::string key(const Variant& variant) {
  return fmt::format("{} {} {} {} {} {} {} {}", print(variant), variant.non_tma_loads,
                     variant.row_loads, variant.paired_loads, variant.non_tma_stores,
                     variant.copied_stores, variant.copied_at_once, variant.whole_sectors);
}

}  // namespace epifuse::codegen::sm90
