// Fits factors of a model's constants to measured times.
#include "tune/fit.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"

namespace epifuse::tune {
namespace {

constexpr double kMostFactor = 2, kMostError = 1.5;
constexpr double kStays = 1e-3;  // of a squared logarithm of a factor, beside the mean error's
constexpr int kSweeps = 8, kHalvings = 14;

class Fit {
 public:
  Fit(std::size_t num_factors, std::span<const double> measured, std::span<const double> weights,
      const Expect& expect)
      : measured_(measured), weights_(weights), expect_(expect), factors_(num_factors, 1.0) {}

  FittedFactors run() {
    FittedFactors out;
    out.error_before = mean_error();
    double loss = loss_now();
    for (int sweep = 0; sweep < kSweeps; ++sweep) {
      const double before = loss;
      for (double& factor : factors_) loss = improve(factor);
      if (before - loss < 1e-4 * before) break;
    }
    out.error_after = mean_error();
    out.factors = std::move(factors_);
    return out;
  }

 private:
  double loss_now() const {
    const std::vector<double> expected = expect_(factors_);
    EPIFUSE_CHECK(expected.size() == measured_.size(), "the model has a time for each measurement");
    const double most = std::log(kMostError);
    double sum = 0, all = 0;
    for (std::size_t i = 0; i < expected.size(); ++i) {
      const double off = std::min(std::abs(std::log(expected[i] / measured_[i])), most);
      sum += weights_[i] * off * off;
      all += weights_[i];
    }
    double moved = 0;
    for (const double factor : factors_) moved += std::log(factor) * std::log(factor);
    return sum / all + kStays * moved;
  }

  double mean_error() const {
    const std::vector<double> expected = expect_(factors_);
    double sum = 0;
    for (std::size_t i = 0; i < expected.size(); ++i) {
      sum += std::abs(expected[i] / measured_[i] - 1);
    }
    return sum / static_cast<double>(std::max<std::size_t>(expected.size(), 1));
  }

  // Steps up and down that halve, from where the factor is. The loss there.
  double improve(double& factor) {
    double best = loss_now();
    double step = std::log(kMostFactor) / 2;
    for (int i = 0; i < kHalvings; ++i, step /= 2) {
      const double here = factor;
      for (const double way : {std::exp(step), std::exp(-step)}) {
        factor = std::clamp(here * way, 1 / kMostFactor, kMostFactor);
        const double loss = loss_now();
        if (loss < best) {
          best = loss;
          break;
        }
        factor = here;
      }
    }
    return best;
  }

  const std::span<const double> measured_, weights_;
  const Expect& expect_;
  std::vector<double> factors_;
};

}  // namespace

FittedFactors fit_factors(std::size_t num_factors, std::span<const double> measured_us,
                          std::span<const double> weights, const Expect& expect) {
  EPIFUSE_CHECK(measured_us.size() == weights.size(), "each measurement has a weight");
  if (measured_us.empty()) return {std::vector<double>(num_factors, 1.0), 0, 0};
  return Fit(num_factors, measured_us, weights, expect).run();
}

}  // namespace epifuse::tune
