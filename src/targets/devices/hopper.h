// What the rows of two devices share: an H100 (SXM) has an H200's multiprocessors and other memory.
#pragma once

#include "targets/device_profile.h"

namespace epifuse::targets::devices {

inline constexpr DeviceLimits kLimitsOfHopper{.num_sms = 132,
                                              .clusters_of_2 = 66,
                                              .clusters_of_3 = 39,
                                              .clusters_of_4 = 30,
                                              .clusters_of_8 = 15};

// Of an H200: 8 groups of 1024 rows, 4096x2048 (docs/gotchas-groups.md).
inline constexpr RowsFirst kRowsFirstOfH200{.gather_slows = 0.15, .fewest_rows = 128};

}  // namespace epifuse::targets::devices
