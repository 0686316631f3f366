// Tensors as memory.
//
// Elements x of a and y of b share a byte where
//   low <= address_a - address_b + sum x_i stride_i - sum y_j stride_j <= high   (in bytes),
// a sum of independent steps. Strides that are alike make one step of as many places as both.
#include "base/strided.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <numeric>

#include "epifuse/error.h"
#include "epifuse/tensor.h"

namespace epifuse {
namespace {

constexpr int kMostTries = 1 << 14;  // far beyond what tensors in use take

// A term of the sum: `bytes` times any whole number from `least` to `most`.
struct Step {
  std::int64_t bytes, least, most;
};

// The largest steps first.
class Steps {
 public:
  void add(std::int64_t bytes, std::int64_t least, std::int64_t most) {
    if (bytes < 0) {
      bytes = -bytes;
      std::swap(least, most);
      least = -least;
      most = -most;
    }
    const auto place =
        std::find_if(steps_.begin(), steps_.end(), [&](const Step& s) { return s.bytes <= bytes; });
    if (place != steps_.end() && place->bytes == bytes) {
      place->least += least;
      place->most += most;
    } else {
      steps_.insert(place, {bytes, least, most});
    }
  }

  // Whether the sum can lie from `low` to `high`; with `nonzero`, of steps that are not all 0.
  bool reaches(std::int64_t low, std::int64_t high, bool nonzero) {
    tries_ = 0;
    return reaches(0, low, high, nonzero);
  }

 private:
  // The same for the steps from `index` on.
  bool reaches(std::size_t index, std::int64_t low, std::int64_t high, bool nonzero) {
    if (++tries_ > kMostTries) return true;
    if (index == steps_.size()) return !nonzero && low <= 0 && 0 <= high;
    const Step& step = steps_[index];
    std::int64_t least = 0, most = 0, divisor = step.bytes;  // of the sum of the smaller steps
    for (std::size_t i = index + 1; i < steps_.size(); ++i) {
      least += steps_[i].bytes * steps_[i].least;
      most += steps_[i].bytes * steps_[i].most;
      divisor = std::gcd(divisor, steps_[i].bytes);
    }
    if (floor_div(high, divisor) * divisor < low) return false;
    const std::int64_t begin = std::max(step.least, ceil_div(low - most, step.bytes));
    const std::int64_t end = std::min(step.most, floor_div(high - least, step.bytes));
    for (std::int64_t n = begin; n <= end; ++n) {
      const std::int64_t done = n * step.bytes;
      if (reaches(index + 1, low - done, high - done, nonzero && n == 0)) return true;
    }
    return false;
  }

  static std::int64_t floor_div(std::int64_t a, std::int64_t b) {
    return a / b - (a % b < 0 ? 1 : 0);
  }
  static std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return -floor_div(-a, b); }

  std::vector<Step> steps_;
  int tries_ = 0;
};

// Whether each stride is larger than what the smaller ones reach: then no elements meet.
bool is_nested(Numbers sizes, Numbers strides) {
  std::array<bool, 16> is_done{};
  std::int64_t reach = 0;
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    std::size_t least = sizes.size();
    for (std::size_t d = 0; d < sizes.size(); ++d) {
      if (is_done[d] || sizes[d] <= 1) continue;
      if (least == sizes.size() || std::abs(strides[d]) < std::abs(strides[least])) least = d;
    }
    if (least == sizes.size()) break;
    is_done[least] = true;
    if (std::abs(strides[least]) <= reach) return false;
    reach += (sizes[least] - 1) * std::abs(strides[least]);
  }
  return true;
}

}  // namespace

std::optional<std::int64_t> checked_count(Numbers sizes) {
  std::int64_t count = 1;
  for (const std::int64_t size : sizes) {
    if (size < 0) return std::nullopt;
    if (size == 0) continue;
    if (__builtin_mul_overflow(count, size, &count) || count > kMaxElements) return std::nullopt;
  }
  return count;
}

void check_size(std::string_view symbol, std::int64_t size) {
  if (0 <= size && size <= kMaxElements) return;
  throw ArgumentError(fmt::format("expected a size from 0 to 2^40 for {}, got {}", symbol, size));
}

std::optional<Reach> checked_reach(Numbers sizes, Numbers strides) {
  Reach reach;
  for (std::size_t d = 0; d < sizes.size(); ++d) {
    if (sizes[d] <= 1) continue;
    std::int64_t step;
    if (__builtin_mul_overflow(sizes[d] - 1, strides[d], &step)) return std::nullopt;
    if (step >= kMaxElements || step <= -kMaxElements) return std::nullopt;
    (step < 0 ? reach.first : reach.last) += step;
    if (reach.last - reach.first >= kMaxElements) return std::nullopt;
  }
  return reach;
}

void erase_dim(std::vector<std::int64_t>& sizes, DimLists strides, std::size_t dim) {
  const auto at = static_cast<std::ptrdiff_t>(dim);
  sizes.erase(sizes.begin() + at);
  for (std::vector<std::int64_t>* each : strides) each->erase(each->begin() + at);
}

void join_dims(std::vector<std::int64_t>& sizes, DimLists strides, std::size_t num_fixed,
               const std::function<bool(std::size_t)>& stays) {
  for (std::size_t d = sizes.size() - num_fixed; d-- > 0;) {
    if (sizes[d] == 1 && !(stays && stays(d))) erase_dim(sizes, strides, d);
  }
  for (std::size_t d = sizes.size() - num_fixed; d-- > 1;) {
    if (stays && (stays(d - 1) || stays(d))) continue;
    const auto walks_both = [&](const std::vector<std::int64_t>* each) {
      return (*each)[d - 1] == sizes[d] * (*each)[d];
    };
    if (!std::ranges::all_of(strides, walks_both)) continue;
    sizes[d] *= sizes[d - 1];
    erase_dim(sizes, strides, d - 1);
  }
}

bool folds(Numbers sizes, Numbers strides) {
  if (std::ranges::find(sizes, 0) != sizes.end()) return false;
  if (sizes.size() <= 16 && is_nested(sizes, strides)) return false;
  Steps differences;
  for (std::size_t d = 0; d < sizes.size(); ++d) {
    if (sizes[d] == 1) continue;
    if (strides[d] == 0) return true;
    for (std::size_t e = 0; e < d; ++e) {
      if (sizes[e] > 1 && std::abs(strides[e]) == std::abs(strides[d])) return true;
    }
    differences.add(strides[d], 1 - sizes[d], sizes[d] - 1);
  }
  return differences.reaches(0, 0, /*nonzero=*/true);
}

bool share_memory(const Strided& a, const Strided& b) {
  Steps steps;
  for (std::size_t d = 0; d < a.sizes.size(); ++d) {
    const std::int64_t bytes = a.strides[d] * a.element_bytes;
    if (a.sizes[d] > 1 && bytes != 0) steps.add(bytes, 0, a.sizes[d] - 1);
  }
  for (std::size_t d = 0; d < b.sizes.size(); ++d) {
    const std::int64_t bytes = b.strides[d] * b.element_bytes;
    if (b.sizes[d] > 1 && bytes != 0) steps.add(-bytes, 0, b.sizes[d] - 1);
  }
  const std::int64_t apart = a.address - b.address;
  return steps.reaches(1 - a.element_bytes - apart, b.element_bytes - 1 - apart, false);
}

}  // namespace epifuse
