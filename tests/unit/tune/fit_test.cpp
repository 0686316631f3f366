// Constants found again from the times that they make.
#include "tune/fit.h"

#include <gtest/gtest.h>

#include <cmath>

#include "codegen/family.h"
#include "ir/text.h"
#include "plan/plan.h"
#include "tests/unit/targets/reference_device.h"

namespace epifuse::tune {
namespace {

// Work by rate and a start, the larger of two kinds of work.
std::vector<double> times(std::span<const double> factors) {
  std::vector<double> us;
  for (const double work : {1.0, 3.0, 10.0, 40.0, 200.0}) {
    for (const double bytes : {1.0, 10.0, 100.0}) {
      us.push_back(std::max(work / factors[0], bytes / factors[1]) + 5 * factors[2]);
    }
  }
  return us;
}

TEST(Fit, FactorsAreFoundAgain) {
  const std::vector<double> truth{1.25, 0.8, 0.7};
  const std::vector<double> measured = times(truth), weights(measured.size(), 1.0);
  const FittedFactors fit = fit_factors(3, measured, weights, times);
  for (std::size_t i = 0; i < truth.size(); ++i) EXPECT_NEAR(fit.factors[i], truth[i], 0.02) << i;
  EXPECT_GT(fit.error_before, 0.1);
  EXPECT_LT(fit.error_after, 0.01);
}

TEST(Fit, WhatNothingDependsOnStays) {
  const std::vector<double> measured = times(std::vector{1.25, 0.8, 0.7, 1.0});
  const std::vector<double> weights(measured.size(), 1.0);
  EXPECT_EQ(fit_factors(4, measured, weights, times).factors[3], 1.0);
}

TEST(Fit, AnOutlierMovesLittle) {
  const std::vector<double> truth{1.1, 0.9, 0.95};
  std::vector<double> measured = times(truth);
  measured[7] *= 20;
  const std::vector<double> weights(measured.size(), 1.0);
  const FittedFactors fit = fit_factors(3, measured, weights, times);
  for (std::size_t i = 0; i < truth.size(); ++i) EXPECT_NEAR(fit.factors[i], truth[i], 0.04) << i;
}

TEST(Fit, WithoutMeasurementsAllStay) {
  EXPECT_EQ(fit_factors(2, {}, {}, times).factors, (std::vector<double>{1, 1}));
}

// A device whose constants are others than the family's, seen through the family's own model.
class FamilyConstants : public ::testing::Test {
 protected:
  struct Row {
    codegen::GemmConfig config;
    codegen::GemmSizes sizes;
  };
  FamilyConstants() {
    const targets::TargetInfo& target = targets::usual_target(DeviceKind::cuda);
    for (const codegen::KernelFamily& each : codegen::all_families()) {
      if (each.constants != nullptr && !each.why_not(plan_, step(), target)) family_ = &each;
    }
    const auto configs = family_->configs(step(), target);
    for (const std::int64_t m : {64, 1024, 4096}) {
      for (std::size_t i = 0; i < configs.size(); i += 3) {
        rows_.push_back({configs[i], {1, m, 4096, 1024}});
        rows_.push_back({configs[i], {1, m, 1024, 8192}});
      }
    }
  }
  const plan::FusedGemm& step() const { return std::get<plan::FusedGemm>(plan_.steps.front()); }

  std::vector<double> expected(const std::vector<targets::ModelConstant>& constants) const {
    targets::DeviceProfile profile = targets::reference_gpu();
    targets::Measurements measured = *profile.known->measured;
    measured.constants = constants;
    const targets::KnownDevice known{profile.known->name, &measured};
    profile.known = &known;
    std::vector<double> us;
    for (const Row& row : rows_) {
      us.push_back(family_->expected_us(step(), row.config, row.sizes, profile));
    }
    return us;
  }

  const plan::Plan plan_ = plan::make_plan(
      ir::parse("graph g(x: bf16[M, K], w: bf16[N, K], b: bf16[N]) {\n"
                "  h = matmul x, w^T\n  t = add h, b\n  y = gelu_erf t\n  return y\n}\n"),
      {});
  const codegen::KernelFamily* family_ = nullptr;
  std::vector<Row> rows_;
};

TEST_F(FamilyConstants, OfAProfileReplaceTheFamilysOwn) {
  const std::vector<double> usual = expected({});
  std::vector<targets::ModelConstant> same;
  for (const auto& each : family_->constants(targets::reference_gpu())) {
    same.push_back({family_->name, each.name, each.value});
  }
  EXPECT_EQ(expected(same), usual);
  for (targets::ModelConstant& each : same) {
    if (each.name == "launch_us") each.value += 10;
  }
  const std::vector<double> later = expected(same);
  std::size_t num_later = 0;
  for (std::size_t i = 0; i < usual.size(); ++i) {
    if (later[i] == usual[i]) continue;  // kernels for few rows have a constant of their own
    EXPECT_NEAR(later[i], usual[i] + 10, 1e-6);
    ++num_later;
  }
  EXPECT_GT(num_later, usual.size() / 2);
  EXPECT_EQ(expected({{"another_family", "launch_us", 99}}), usual);
}

TEST_F(FamilyConstants, ACardThatIsSlowerIsPredictedAfterTheFit) {
  const auto named = family_->constants(targets::reference_gpu());
  std::vector<std::size_t> fitted;
  for (std::size_t i = 0; i < named.size(); ++i) {
    if (named[i].is_fitted) fitted.push_back(i);
  }
  const auto with = [&](std::span<const double> factors) {
    std::vector<targets::ModelConstant> constants;
    for (const auto& each : named) constants.push_back({family_->name, each.name, each.value});
    for (std::size_t i = 0; i < fitted.size(); ++i) constants[fitted[i]].value *= factors[i];
    return expected(constants);
  };
  std::vector<double> truth(fitted.size(), 1.0);
  for (std::size_t i = 0; i < fitted.size(); ++i) {
    if (named[fitted[i]].name == "clocks_per_us") truth[i] = 0.8;
    if (named[fitted[i]].name == "bytes_per_us") truth[i] = 0.7;
    if (named[fitted[i]].name == "chunk_clocks") truth[i] = 1.2;
  }
  const std::vector<double> measured = with(truth), weights(measured.size(), 1.0);
  const FittedFactors fit = fit_factors(fitted.size(), measured, weights, with);
  EXPECT_GT(fit.error_before, 0.1);
  EXPECT_LT(fit.error_after, 0.02);
}

}  // namespace
}  // namespace epifuse::tune
