// The table of targets.
#include "targets/targets.h"

#include <algorithm>

#include "base/check.h"

namespace epifuse::targets {
namespace {

constexpr TargetInfo kTargets[] = {
#define EPIFUSE_TARGET(name, kind, major, minor, smem, wgmma, tma, limits, device) \
  {name, DeviceKind::kind, major, minor, smem, wgmma, tma, limits, device},
#include "targets/targets.def"
#undef EPIFUSE_TARGET
};

}  // namespace

std::span<const TargetInfo> all_targets() { return kTargets; }

const TargetInfo* find_target(std::string_view name) {
  for (const TargetInfo& target : kTargets) {
    if (target.name == name) return &target;
  }
  return nullptr;
}

const TargetInfo& usual_target(DeviceKind kind) {
  const auto* const found = std::ranges::find(kTargets, kind, &TargetInfo::kind);
  EPIFUSE_CHECK(found != std::end(kTargets), "every kind of device has a row in targets.def");
  return *found;
}

}  // namespace epifuse::targets
