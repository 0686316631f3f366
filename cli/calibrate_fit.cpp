#include "calibrate_fit.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "base/parallel.h"
#include "codegen/family.h"
#include "tune/fit.h"

namespace epifuse::cli {
namespace {

constexpr double kSharpness = 4;    // a way that takes twice the best one's time counts 1/16
constexpr double kFarBehind = 1.6;  // ways that take more are left out: the fit would last long

// A config, and its place among the family's: the first of those is chosen that are expected to
// take as long as each other.
struct PlacedConfig {
  std::size_t place;
  codegen::GemmConfig config;
};

// A time of a candidate of one family.
struct TimedConfig {
  const TimedPoint* point;
  codegen::GemmConfig config;
  std::size_t place;
  double us, weight;
};

std::map<std::string, PlacedConfig> configs_by_name(const codegen::KernelFamily& family,
                                                    const TimedPoint& point,
                                                    const targets::TargetInfo& target) {
  std::map<std::string, PlacedConfig> by_name;
  for (const codegen::GemmConfig& config : codegen::fitted(
           family, point.step(), family.configs(point.step(), target), point.variant, target)) {
    by_name.emplace(fmt::format("{}, {}", family.name, codegen::print(config)),
                    PlacedConfig{by_name.size(), config});
  }
  return by_name;
}

std::vector<TimedConfig> times_of(const codegen::KernelFamily& family,
                                  std::span<const TimedPoint> points,
                                  const targets::TargetInfo& target) {
  std::vector<TimedConfig> times;
  for (const TimedPoint& point : points) {
    if (point.family != nullptr && point.family != &family) continue;
    if (family.why_not(*point.plan, point.step(), target)) continue;
    const auto by_name = configs_by_name(family, point, target);
    double best = 0;
    for (const backends::MeasuredStep::Way& way : point.ways) {
      if (by_name.contains(way.name) && (best == 0 || way.us < best)) best = way.us;
    }
    for (const backends::MeasuredStep::Way& way : point.ways) {
      const auto found = by_name.find(way.name);
      if (found == by_name.end() || way.us > kFarBehind * best) continue;
      const auto& [place, config] = found->second;
      times.push_back({&point, config, place, way.us, std::pow(best / way.us, kSharpness)});
    }
  }
  return times;
}

class FamilyFit {
 public:
  FamilyFit(const codegen::KernelFamily& family, std::vector<TimedConfig> times,
            const targets::DeviceProfile& device)
      : family_(family), times_(std::move(times)), device_(device) {
    if (device.known != nullptr) measured_ = *device.known->measured;
    for (const codegen::NamedConstant& each : family.constants(device)) {
      if (each.is_fitted) fitted_.push_back(constants_.size());
      constants_.push_back({family.name, each.name, each.value});
    }
    usual_ = constants_;
  }

  void run(FittedModel& model) {
    std::vector<double> us, weights;
    for (const TimedConfig& each : times_) {
      us.push_back(each.us);
      weights.push_back(each.weight);
    }
    const tune::FittedFactors fit = tune::fit_factors(
        fitted_.size(), us, weights, [&](std::span<const double> factors) { return at(factors); });
    at(fit.factors);
    for (const targets::ModelConstant& each : constants_) {
      model.constants.push_back({std::string(each.family), std::string(each.name), each.value});
    }
    // Of several families the means over all of their times.
    const auto before = static_cast<double>(model.num_times),
               more = static_cast<double>(times_.size());
    const auto joined = [&](double known, double fresh) {
      return (known * before + fresh * more) / (before + more);
    };
    model.error_before = joined(model.error_before, fit.error_before);
    model.error_after = joined(model.error_after, fit.error_after);
    model.num_times += times_.size();
  }

 private:
  std::vector<double> at(std::span<const double> factors) {
    for (std::size_t i = 0; i < fitted_.size(); ++i) {
      constants_[fitted_[i]].value = usual_[fitted_[i]].value * factors[i];
    }
    measured_.constants = constants_;
    const targets::KnownDevice known{device_.known == nullptr ? "" : device_.known->name,
                                     &measured_};
    const targets::DeviceProfile profile{device_.limits, device_.driver, &known,
                                         device_.macs_per_clock, device_.fp8_macs_per_clock};
    std::vector<double> us(times_.size());
    parallel_for(std::ssize(times_), [&](std::int64_t i, int) {
      const auto at = static_cast<std::size_t>(i);
      const TimedConfig& each = times_[at];
      us[at] = family_.expected_us(each.point->step(), each.config, each.point->sizes, profile);
    });
    return us;
  }

  const codegen::KernelFamily& family_;
  const std::vector<TimedConfig> times_;
  const targets::DeviceProfile& device_;
  targets::Measurements measured_{};
  std::vector<targets::ModelConstant> usual_, constants_;
  std::vector<std::size_t> fitted_;  // of the constants
};

// A device with constants of its own in the place of the families'.
class ConstantsOf {
 public:
  ConstantsOf(const targets::DeviceProfile& device, const Constants& constants) {
    if (device.known != nullptr) measured_ = *device.known->measured;
    for (const auto& each : constants) list_.push_back({each.family, each.name, each.value});
    measured_.constants = list_;
    known_ = {device.known == nullptr ? "" : device.known->name, &measured_};
    profile_ = {device.limits, device.driver, &known_};
  }
  ConstantsOf(const ConstantsOf&) = delete;
  ConstantsOf& operator=(const ConstantsOf&) = delete;
  const targets::DeviceProfile& profile() const { return profile_; }

 private:
  targets::Measurements measured_{};
  std::vector<targets::ModelConstant> list_;
  targets::KnownDevice known_{};
  targets::DeviceProfile profile_;
};

ModelError::Spread spread(std::vector<double> all) {
  if (all.empty()) return {};
  std::ranges::sort(all);
  double sum = 0;
  for (const double each : all) sum += each;
  const auto at = static_cast<std::size_t>(0.95 * static_cast<double>(all.size() - 1));
  return {sum / static_cast<double>(all.size()), all[at], all.back()};
}

}  // namespace

FittedModel fit_model(std::span<const TimedPoint> points, const targets::TargetInfo& target,
                      const targets::DeviceProfile& device) {
  FittedModel model;
  for (const codegen::KernelFamily& family : codegen::all_families()) {
    if (family.constants == nullptr) continue;
    std::vector<TimedConfig> times = times_of(family, points, target);
    if (!times.empty()) FamilyFit(family, std::move(times), device).run(model);
  }
  return model;
}

void ModelError::add(const ModelError& other) {
  expected.insert(expected.end(), other.expected.begin(), other.expected.end());
  points.insert(points.end(), other.points.begin(), other.points.end());
}

ModelError::Spread ModelError::expected_spread() const { return spread(expected); }

ModelError::Spread ModelError::chosen_spread() const {
  std::vector<double> losses;
  for (const Point& each : points) losses.push_back(each.loss);
  return spread(std::move(losses));
}

ModelError judge_model(std::span<const TimedPoint> points, const Constants& constants,
                       const targets::TargetInfo& target, const targets::DeviceProfile& device) {
  const ConstantsOf fitted(device, constants);
  ModelError out;
  for (const TimedPoint& point : points) {
    for (const codegen::KernelFamily& family : codegen::all_families()) {
      std::vector<TimedConfig> times = times_of(family, {&point, 1}, target);
      if (times.empty()) continue;
      std::ranges::sort(times, {}, [](const TimedConfig& each) { return each.place; });
      const auto best = std::ranges::min_element(times, {}, &TimedConfig::us);
      ModelError::Point& judged =
          out.points.emplace_back(ModelError::Point{point.text, "", codegen::print(best->config)});
      for (const TimedConfig& each : times) {
        const double us =
            family.expected_us(point.step(), each.config, point.sizes, fitted.profile());
        out.expected.push_back(std::abs(us / each.us - 1));
        if (!judged.chosen.empty() && us >= judged.chosen_expected_us) continue;
        judged.chosen = codegen::print(each.config);
        judged.chosen_expected_us = us;
        judged.chosen_us = each.us;
      }
      judged.loss = judged.chosen_us / best->us - 1;
    }
  }
  return out;
}

ModelError judge_fit(std::span<const TimedPoint> points, const targets::TargetInfo& target,
                     const targets::DeviceProfile& device) {
  std::vector<TimedPoint> halves[2];
  for (const TimedPoint& point : points) halves[point.product % 2].push_back(point);
  if (halves[0].empty() || halves[1].empty()) return {};
  ModelError out =
      judge_model(halves[0], fit_model(halves[1], target, device).constants, target, device);
  out.add(judge_model(halves[1], fit_model(halves[0], target, device).constants, target, device));
  return out;
}

}  // namespace epifuse::cli
