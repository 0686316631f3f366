#include "tune/interpolate.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace epifuse::tune {
namespace {

// The root of the summed squares of how many powers of 2 the sizes are apart.
double distance(const targets::MeasuredProduct& a, const codegen::GemmSizes& b) {
  const auto powers = [](std::int64_t x, std::int64_t y) {
    return std::log2(static_cast<double>(x) / static_cast<double>(y));
  };
  return std::hypot(powers(a.m, b.m), powers(a.n, b.n), powers(a.k, b.k));
}

}  // namespace

std::optional<double> interpolate(
    std::span<const targets::MeasuredProduct> rows, const codegen::GemmSizes& sizes,
    double farthest, const std::function<double(const targets::MeasuredProduct&)>& of_row) {
  constexpr double kSamePlace = 1e-3;
  double sum = 0, weights = 0, nearest = std::numeric_limits<double>::infinity();
  for (const targets::MeasuredProduct& row : rows) {
    const double apart = distance(row, sizes);
    const double weight = 1 / std::pow(apart * apart + kSamePlace * kSamePlace, 2);
    sum += weight * std::log(of_row(row));
    weights += weight;
    nearest = std::min(nearest, apart);
  }
  if (nearest > farthest) return std::nullopt;
  return std::exp(sum / weights);
}

}  // namespace epifuse::tune
