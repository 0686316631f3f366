// The device that tests of GPUs stand on, which need none.
#pragma once

#include "targets/device_profile.h"

namespace epifuse::targets {

inline DeviceProfile reference_gpu() { return reference_profile(usual_target(DeviceKind::cuda)); }

}  // namespace epifuse::targets
