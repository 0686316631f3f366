// The narrow float formats: rounding a double to each, and their bits.
#pragma once

#include <cstdint>

#include "epifuse/dtype.h"

namespace epifuse {

// `x` rounded to `dtype`, to nearest even, as a double. Overflow gives infinity, except e4m3, which
// has none and saturates at 448 (NaN stays NaN). boolean: 0 or 1; i8 saturates, and NaN
// becomes 0.
double round_to(double x, DType dtype);
// Spacing of `dtype` at |x| (its smallest subnormal near 0, that of its largest finite value beyond
// it): one unit in the last place. 0 for integers and boolean, whose values are exact; NaN for NaN.
double ulp(double x, DType dtype);

double load_element(const void* data, DType dtype, std::int64_t index);
void store_element(void* data, DType dtype, std::int64_t index, double x);  // rounds

inline float bf16_to_float(std::uint16_t bits) {
  return __builtin_bit_cast(float, static_cast<std::uint32_t>(bits) << 16);
}

}  // namespace epifuse
