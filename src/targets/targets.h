// What code can be generated for, and what is known of the devices it runs on.
#pragma once

#include <compare>
#include <span>
#include <string_view>

#include "epifuse/tensor.h"

namespace epifuse::targets {

// A row of targets.def.
struct TargetInfo {
  std::string_view name;  // "cpu", or NVRTC's name of an architecture
  DeviceKind kind;
  int major, minor;          // compute capability
  int smem_per_block_bytes;  // opt-in limit
  bool has_wgmma, has_tma;
};
std::span<const TargetInfo> all_targets();
const TargetInfo* find_target(std::string_view name);  // null when there is none
// What is compiled for where no device says otherwise: the first row of the kind.
const TargetInfo& usual_target(DeviceKind kind);

struct DeviceLimits {
  int num_sms = 132;
  // Clusters of 2, 3, 4 and 8 CTAs that run at once, each CTA with an SM of its own (of an H200;
  // the count differs from card to card).
  int clusters_of_2 = 66, clusters_of_3 = 39, clusters_of_4 = 30, clusters_of_8 = 15;
  auto operator<=>(const DeviceLimits&) const = default;
};

}  // namespace epifuse::targets
