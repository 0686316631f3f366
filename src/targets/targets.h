// What code can be generated for, and the limits of a device that runs it.
#pragma once

#include <compare>
#include <span>
#include <string_view>

#include "epifuse/tensor.h"
#include "targets/step_limits.h"

namespace epifuse::targets {

// A row of targets.def.
struct TargetInfo {
  std::string_view name;  // "cpu", or NVRTC's name of an architecture
  DeviceKind kind;
  int major, minor;          // compute capability
  int smem_per_block_bytes;  // opt-in limit
  int num_sms;               // of a usual device
  int macs_per_clock;        // of an SM's tensor cores, by instructions of one warp
  int fp8_macs_per_clock;    // of 8-bit floats; 0: it has no such instructions
  int fp8_step;              // products that these add at once with few bits; 0: in float32
  bool has_wgmma, has_tma;
  StepLimits limits;  // of its steps
  // A row of devices.def: what it stands for without a device. Empty where none was measured.
  std::string_view reference_device;
};
std::span<const TargetInfo> all_targets();
const TargetInfo* find_target(std::string_view name);  // null when there is none
// Whether GPUs of a compute capability run its code: those of its generation with as high a minor
// number; where a name ends in "a", it is of that one architecture alone.
bool runs_on(const TargetInfo& target, int major, int minor);
// The best row for GPUs of a compute capability, the first of equals; null without one.
const TargetInfo* target_of_gpu(int major, int minor);
// What is compiled for where no device says otherwise: the first row of the kind.
const TargetInfo& usual_target(DeviceKind kind);

// Of a device at hand; nothing without one (reference_profile of device_profile.h).
struct DeviceLimits {
  int num_sms = 0;
  // Clusters of 2, 3, 4 and 8 CTAs that run at once, each CTA with an SM of its own: the count
  // differs from card to card.
  int clusters_of_2 = 0, clusters_of_3 = 0, clusters_of_4 = 0, clusters_of_8 = 0;
  auto operator<=>(const DeviceLimits&) const = default;
};

}  // namespace epifuse::targets
