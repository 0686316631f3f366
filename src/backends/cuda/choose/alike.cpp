#include "backends/cuda/choose/alike.h"

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "base/float_types.h"

namespace epifuse::cuda {

bool are_alike(const std::vector<unsigned char>& a, const std::vector<unsigned char>& b,
               DType dtype, FarOff far_off) {
  constexpr double kRelative = 1.0 / 16, kOfMean = 1.0 / 16;
  constexpr std::int64_t kMany = 64;  // one of these, where few may be
  const auto count = static_cast<std::int64_t>(a.size() / size_bytes(dtype));
  double squares = 0;
  std::int64_t numbers = 0;
  for (std::int64_t i = 0; i < count; ++i) {
    const double x = load_element(a.data(), dtype, i);
    if (!std::isfinite(x)) continue;
    squares += x * x;
    ++numbers;
  }
  const double slack =
      kOfMean * std::sqrt(squares / static_cast<double>(std::max<std::int64_t>(numbers, 1)));
  std::int64_t num_off = 0;
  for (std::int64_t i = 0; i < count; ++i) {
    const double x = load_element(a.data(), dtype, i), y = load_element(b.data(), dtype, i);
    const bool same = x == y || (std::isnan(x) && std::isnan(y));
    if (same) continue;
    const double most = kRelative * std::abs(x) + slack + ulp(x, dtype);
    if (std::abs(x - y) <= most) continue;
    if (std::isnan(x) || std::isnan(y)) return false;
    ++num_off;
  }
  return num_off <= (far_off == FarOff::few ? count / kMany : 0);
}

}  // namespace epifuse::cuda
