// Whether two kernels computed the same, by parts of what they wrote.
#pragma once

#include <vector>

#include "epifuse/dtype.h"

namespace epifuse::cuda {

// Of results that are rounded to 8 bits few may be far off: two sums on either side of a power of
// two have scales that are powers of two apart.
enum class FarOff : std::uint8_t { none, few };

// Whether `a` and `b`, elements of `dtype`, are results of the same sums, in any order and with any
// roundings on the way. Wrong results are far off.
bool are_alike(const std::vector<unsigned char>& a, const std::vector<unsigned char>& b,
               DType dtype, FarOff far_off);

}  // namespace epifuse::cuda
