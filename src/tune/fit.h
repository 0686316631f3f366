// Fits factors of a model's constants to measured times.
#pragma once

#include <cstddef>
#include <functional>
#include <span>
#include <vector>

namespace epifuse::tune {

// The model's times of all measurements, for such factors of its constants.
using Expect = std::function<std::vector<double>(std::span<const double> factors)>;

struct FittedFactors {
  std::vector<double> factors;               // of each constant, from 1/2 to 2
  double error_before = 0, error_after = 0;  // the mean of |expected / measured - 1|
};

// By coordinate descent on the squared logarithms of expected over measured time, each weighted by
// `weights`; outliers count no more than 1.5 times too much. What the measurements do not tell
// stays at 1. Deterministic.
FittedFactors fit_factors(std::size_t num_factors, std::span<const double> measured_us,
                          std::span<const double> weights, const Expect& expect);

}  // namespace epifuse::tune
