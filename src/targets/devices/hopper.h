// What the rows of two devices share: an H100 (SXM) has an H200's multiprocessors and other memory.
#pragma once

#include <array>

#include "targets/device_profile.h"

namespace epifuse::targets::devices {

inline constexpr DeviceLimits kLimitsOfHopper{.num_sms = 132,
                                              .clusters_of_2 = 66,
                                              .clusters_of_3 = 39,
                                              .clusters_of_4 = 30,
                                              .clusters_of_8 = 15};

// Of an H200: 4096 x 4096 x 4095, 4096, 4098 and 4100 bf16 (2026-11-21, `epifuse run` of bias and
// silu; the tail's 22 us taken off). Pairs that are not here were not measured.
inline constexpr std::array kMisalignedOfH200{
    // a, b, ours, even, odd
    MisalignedProducts{Rows::k_major, Rows::k_major, 3.3, 2.75, 5.2},
    MisalignedProducts{Rows::k_major, Rows::aligned, 2.2, 2.7, 4.9},
    MisalignedProducts{Rows::mn_major, Rows::aligned, 2.25, 2.6, 5.3},
    MisalignedProducts{Rows::aligned, Rows::mn_major, 3.9, 2.8, 5.2},
};

// Of an H200: 8 groups of 1024 rows, 4096x2048 (docs/gotchas-groups.md).
inline constexpr RowsFirst kRowsFirstOfH200{.gather_slows = 0.15, .fewest_rows = 128};

}  // namespace epifuse::targets::devices
