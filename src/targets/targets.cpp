// The table of targets.
#include "targets/targets.h"

#include <algorithm>

#include "base/check.h"

namespace epifuse::targets {
namespace {

constexpr TargetInfo kTargets[] = {
#define EPIFUSE_TARGET(name, kind, major, minor, smem, sms, macs, fp8, step, wgmma, tma, limits, \
                       device)                                                                   \
  {name, DeviceKind::kind, major, minor, smem, sms, macs, fp8, step, wgmma, tma, limits, device},
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

bool runs_on(const TargetInfo& target, int major, int minor) {
  if (target.kind != DeviceKind::cuda || target.major != major) return false;
  return target.name.ends_with('a') ? target.minor == minor : target.minor <= minor;
}

const TargetInfo* target_of_gpu(int major, int minor) {
  const TargetInfo* best = nullptr;
  for (const TargetInfo& target : kTargets) {
    if (runs_on(target, major, minor) && (best == nullptr || target.minor > best->minor))
      best = &target;
  }
  return best;
}

const TargetInfo& usual_target(DeviceKind kind) {
  const auto* const found = std::ranges::find(kTargets, kind, &TargetInfo::kind);
  EPIFUSE_CHECK(found != std::end(kTargets), "every kind of device has a row in targets.def");
  return *found;
}

}  // namespace epifuse::targets
