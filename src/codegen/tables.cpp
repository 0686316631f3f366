// The tables of targets and kernel families.
#include <fmt/format.h>

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
#define EPIFUSE_FAMILY(name, summary)                              \
  {#name,        summary,      name::why_not,       name::configs, \
   name::choose, name::source, name::why_not_bound, name::launch},
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

std::string print(const GemmConfig& config) {
  return fmt::format("ping-pong {}x{}, {} stages", config.tile_m, config.tile_n, config.stages);
}

}  // namespace epifuse::codegen
