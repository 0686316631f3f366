// The table of kernel families, and what follows from a row.
#include "codegen/family.h"

#include <fmt/format.h>

#include "codegen/product_roles.h"
#include "epifuse/error.h"

namespace epifuse::codegen {

// What the folder of each family has.
#define EPIFUSE_FAMILY(folder, name, summary)                                \
  namespace folder {                                                         \
  KernelFamily family(std::string_view its_name, std::string_view sentence); \
  }
#include "codegen/families.def"
#undef EPIFUSE_FAMILY

std::span<const KernelFamily> all_families() {
  static const KernelFamily families[] = {
#define EPIFUSE_FAMILY(folder, name, summary) folder::family(name, summary),
#include "codegen/families.def"
#undef EPIFUSE_FAMILY
  };
  return families;
}

bool suits(const KernelFamily& family, const targets::TargetInfo& target) {
  return family.suits == nullptr || family.suits(target);
}

void check_family(std::string_view name) {
  if (name.empty()) return;
  std::string names;
  for (const KernelFamily& family : all_families()) {
    if (family.name == name) return;
    names += fmt::format("{}{}", names.empty() ? "" : ", ", family.name);
  }
  throw ArgumentError(fmt::format("family: expected one of {}, got '{}'", names, name));
}

std::vector<const KernelFamily*> families_for(const targets::TargetInfo& target,
                                              std::string_view name) {
  check_family(name);
  std::vector<const KernelFamily*> out;
  for (const KernelFamily& family : all_families()) {
    if (name.empty() ? suits(family, target) : family.name == name) out.push_back(&family);
  }
  return out;
}

std::vector<const KernelFamily*> families_for(const plan::FusedGemm& step,
                                              const targets::TargetInfo& target,
                                              std::string_view name) {
  std::vector<const KernelFamily*> out = families_for(target, name);
  const bool is_alone = has_vendor(step.gemm) && !step.gemm.widens_b();
  if (is_alone || !name.empty()) return out;
  for (const KernelFamily& family : all_families()) {
    if (!suits(family, target)) out.push_back(&family);
  }
  return out;
}

std::vector<GemmConfig> fitted(const KernelFamily& family, const plan::FusedGemm& step,
                               std::span<const GemmConfig> configs, const GemmVariant& variant,
                               const targets::TargetInfo& target) {
  std::vector<GemmConfig> out;
  for (const GemmConfig& config : configs) {
    if (auto each = family.fitted(step, config, variant, target)) out.push_back(*std::move(each));
  }
  return out;
}

std::size_t choose(const KernelFamily& family, const plan::FusedGemm& step,
                   std::span<const GemmConfig> configs, const GemmSizes& sizes,
                   const targets::DeviceProfile& device) {
  const auto expected_us = [&](std::size_t i) {
    return family.expected_us(step, configs[i], sizes, device);
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

std::string print(const GemmConfig& config) { return config.functions().print(config); }

std::optional<GemmConfig> leaner(const GemmConfig& config) {
  return config.functions().leaner(config);
}

std::string print(const GemmVariant& variant) {
  return variant.is_empty() ? "" : variant.functions().print(variant);
}

std::string key(const GemmVariant& variant) {
  return variant.is_empty() ? "" : variant.functions().key(variant);
}

}  // namespace epifuse::codegen
