// Fits the model of a kernel family to the times of its candidates.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "backends/backend.h"
#include "codegen/family.h"
#include "codegen/gemm_sizes.h"
#include "plan/plan.h"
#include "targets/profile_text.h"

namespace epifuse::cli {

// A plan of one fused product, and what its ways took at one size.
struct TimedPoint {
  std::string text;  // for people
  std::shared_ptr<const plan::Plan> plan;
  codegen::GemmSizes sizes;  // as the kernel sees them
  std::vector<backends::MeasuredStep::Way> ways;
  std::size_t product = 0;                        // which of the products it is a time of
  codegen::GemmVariant variant = {};              // that the tensors ask for, ..
  const codegen::KernelFamily* family = nullptr;  // .. of this family; null: any

  const plan::FusedGemm& step() const { return std::get<plan::FusedGemm>(plan->steps.front()); }
};

using Constants = std::vector<targets::StoredProfile::Constant>;

struct FittedModel {
  Constants constants;                       // all of each family that was measured
  double error_before = 0, error_after = 0;  // the mean of |expected / measured - 1|
  std::size_t num_times = 0;
};

// Constants of `device` are where the fit begins. Candidates near the best one count most, as the
// choice is among them. Names that are no candidates of a family do not count.
FittedModel fit_model(std::span<const TimedPoint> points, const targets::TargetInfo& target,
                      const targets::DeviceProfile& device);

// How far the model is from times that a fit may not have seen: |expected / measured - 1| of ways
// at most half as slow again as the best one, and how far the way that it chooses is behind that.
struct ModelError {
  struct Spread {
    double mean = 0, p95 = 0, worst = 0;
  };
  struct Point {
    std::string text, chosen, best;  // configs
    double loss = 0, chosen_expected_us = 0, chosen_us = 0;
  };
  std::vector<double> expected;  // of each way
  std::vector<Point> points;

  void add(const ModelError& other);
  Spread expected_spread() const;
  Spread chosen_spread() const;
};
ModelError judge_model(std::span<const TimedPoint> points, const Constants& constants,
                       const targets::TargetInfo& target, const targets::DeviceProfile& device);

// Of every second product by a fit to the others, and of those by a fit to it. Empty without both.
ModelError judge_fit(std::span<const TimedPoint> points, const targets::TargetInfo& target,
                     const targets::DeviceProfile& device);

}  // namespace epifuse::cli
