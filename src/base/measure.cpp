#include "base/measure.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"

namespace epifuse {

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

double median(std::vector<double> samples) {
  EPIFUSE_CHECK(!samples.empty(), "a median needs a sample");
  const auto middle = samples.begin() + static_cast<std::ptrdiff_t>(samples.size() / 2);
  std::nth_element(samples.begin(), middle, samples.end());
  return *middle;
}

double geometric_mean(std::span<const double> samples) {
  double sum = 0;
  for (const double x : samples) sum += std::log(x);
  return samples.empty() ? 1 : std::exp(sum / static_cast<double>(samples.size()));
}

}  // namespace epifuse
