#include "codegen/sm80/config.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <vector>

namespace epifuse::codegen::sm80 {

std::string print(const Config& config) {
  constexpr int kBytes = 2;  // of an element as depth is counted
  std::string text =
      fmt::format("{}x{} by {}x{}, {} deep, {} stages", config.tile_m, config.tile_n, config.warp_m,
                  config.warp_n, config.step_bytes / kBytes, config.stages);
  if (config.split_k > 1) text += fmt::format(", split-K {}", config.split_k);
  if (config.staged_blocks > 0) text += ", persistent";
  return text;
}

std::optional<Config> leaner(Config config) {
  if (config.lean) return std::nullopt;
  config.lean = config.ctas == 1;
  config.ctas = 1;
  return config;
}

std::string print(const Variant& variant) {
  constexpr int kUsual = 16;
  std::vector<std::string> parts;
  if (variant.swapped) parts.emplace_back("roles of a and b swapped");
  const auto add = [&](std::string_view name, int alignment) {
    if (alignment == kUsual) return;
    parts.push_back(fmt::format("{} copied {} bytes at a time", name, alignment));
  };
  add("a", variant.alignment_a);
  add("b", variant.alignment_b);
  if (variant.non_tma_loads != 0) parts.emplace_back("full operands read element by element");
  if (variant.non_tma_stores != 0) parts.emplace_back("results written element by element");
  return fmt::format("{}", fmt::join(parts, ", "));
}

std::string key(const Variant& variant) {
  return fmt::format("{} {} {}", print(variant), variant.non_tma_loads, variant.non_tma_stores);
}

}  // namespace epifuse::codegen::sm80
