// A profile fitted to the times of a card that is simulated by the model with other constants.
#include "cli/calibrate_fit.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "codegen/family.h"
#include "ir/text.h"
#include "tests/unit/targets/reference_device.h"

namespace epifuse::cli {
namespace {

using targets::ModelConstant;

// The reference card with some constants multiplied.
class Card {
 public:
  Card(const codegen::KernelFamily& family, const std::map<std::string_view, double>& factors)
      : measured_(*targets::reference_gpu().known->measured) {
    for (const auto& each : family.constants(targets::reference_gpu())) {
      const auto factor = factors.find(each.name);
      constants_.push_back(
          {family.name, each.name, each.value * (factor == factors.end() ? 1 : factor->second)});
    }
    measured_.constants = constants_;
    known_ = {"a card", &measured_};
  }
  targets::DeviceProfile profile() const { return {targets::reference_gpu().limits, {}, &known_}; }

 private:
  std::vector<ModelConstant> constants_;
  targets::Measurements measured_;
  targets::KnownDevice known_{};
};

// Of a family that has constants.
class CalibrateFit : public ::testing::TestWithParam<const codegen::KernelFamily*> {
 protected:
  CalibrateFit() : target_(targets::usual_target(DeviceKind::cuda)) {
    for (const char* tail : {"add h, b", "gelu_erf h"}) {
      plans_.push_back(std::make_shared<const plan::Plan>(
          plan::make_plan(ir::parse("graph g(x: bf16[M, K], w: bf16[N, K], b: bf16[N]) {\n"
                                    "  h = matmul x, w^T\n  y = " +
                                    std::string(tail) + "\n  return y\n}\n"),
                          {})));
    }
  }
  const plan::FusedGemm& step(std::size_t plan) const {
    return std::get<plan::FusedGemm>(plans_[plan]->steps.front());
  }

  std::vector<TimedPoint> timed(const targets::DeviceProfile& card,
                                const std::vector<codegen::GemmSizes>& sizes) const {
    std::vector<TimedPoint> points;
    for (std::size_t plan = 0; plan < plans_.size(); ++plan) {
      for (const codegen::GemmSizes& size : sizes) {
        TimedPoint& point = points.emplace_back(TimedPoint{"", plans_[plan], size, {}});
        point.product = static_cast<std::size_t>(&size - sizes.data());
        for (const auto& config : family_->configs(step(plan), target_)) {
          point.ways.push_back({std::string(family_->name) + ", " + codegen::print(config),
                                family_->expected_us(step(plan), config, size, card)});
        }
        point.ways.push_back({"product and tail", 1.0});
      }
    }
    return points;
  }

  const targets::TargetInfo& target_;
  std::vector<std::shared_ptr<const plan::Plan>> plans_;
  const codegen::KernelFamily* const family_ = GetParam();
};

const std::vector<codegen::GemmSizes> kSeen{{1, 64, 4096, 4096},
                                            {1, 512, 4096, 1024},
                                            {1, 2048, 4096, 4096},
                                            {1, 8192, 1024, 4096},
                                            {1, 4096, 8192, 512}};
const std::vector<codegen::GemmSizes> kUnseen{
    {1, 1320, 4944, 2048}, {1, 128, 3072, 768}, {1, 6304, 1024, 1024}};

TEST_P(CalibrateFit, ACardIsPredictedAtSizesThatTheFitHasNotSeen) {
  const Card card(*family_, {{"clocks_per_us", 0.82}, {"bytes_per_us", 0.7}, {"launch_us", 1.3}});
  const FittedModel model =
      fit_model(timed(card.profile(), kSeen), target_, targets::reference_gpu());
  EXPECT_GT(model.error_before, 0.1);
  EXPECT_LT(model.error_after, 0.02);
  std::map<std::string_view, double> factors;
  const auto usual = family_->constants(targets::reference_gpu());
  ASSERT_EQ(model.constants.size(), usual.size());
  for (std::size_t i = 0; i < usual.size(); ++i) {
    EXPECT_EQ(model.constants[i].family, family_->name);
    factors[usual[i].name] = usual[i].value == 0 ? 1 : model.constants[i].value / usual[i].value;
  }
  const Card fitted(*family_, factors);
  const auto want = timed(card.profile(), kUnseen), got = timed(fitted.profile(), kUnseen);
  for (std::size_t i = 0; i < want.size(); ++i) {
    double best = want[i].ways.front().us;
    for (std::size_t way = 0; way + 1 < want[i].ways.size(); ++way) {
      best = std::min(best, want[i].ways[way].us);
    }
    for (std::size_t way = 0; way + 1 < want[i].ways.size(); ++way) {
      if (want[i].ways[way].us > 1.6 * best) continue;  // the fit leaves these out, too
      EXPECT_NEAR(got[i].ways[way].us / want[i].ways[way].us, 1, 0.06) << got[i].ways[way].name;
    }
  }
}

TEST_P(CalibrateFit, TheReferenceCardKeepsItsConstants) {
  const FittedModel model =
      fit_model(timed(targets::reference_gpu(), kSeen), target_, targets::reference_gpu());
  EXPECT_EQ(model.error_before, 0);
  const auto usual = family_->constants(targets::reference_gpu());
  for (std::size_t i = 0; i < usual.size(); ++i) {
    EXPECT_EQ(model.constants[i].value, usual[i].value) << usual[i].name;
  }
}

TEST_P(CalibrateFit, AModelIsJudgedByTheProductsThatItWasNotFittedTo) {
  const Card card(*family_, {{"clocks_per_us", 0.82}, {"bytes_per_us", 0.7}, {"launch_us", 1.3}});
  std::vector<TimedPoint> points = timed(card.profile(), kSeen);
  ModelError judged = judge_fit(points, target_, targets::reference_gpu());
  EXPECT_EQ(judged.points.size(), points.size());
  EXPECT_LT(judged.expected_spread().mean, 0.1) << "few sizes do not tell all constants apart";
  // Times that no model has: every second product takes twice as long.
  for (TimedPoint& point : points) {
    if (point.product % 2 == 0) continue;
    for (auto& way : point.ways) way.us *= 2;
  }
  judged = judge_fit(points, target_, targets::reference_gpu());
  EXPECT_GT(judged.expected_spread().mean, 0.25);
  std::erase_if(points, [](const TimedPoint& point) { return point.product % 2 != 0; });
  EXPECT_TRUE(judge_fit(points, target_, targets::reference_gpu()).points.empty());
}

TEST_P(CalibrateFit, WithoutTimesThereAreNoConstants) {
  const TimedPoint point{"", plans_.front(), {1, 64, 64, 64}, {{"product and tail", 3.0}}};
  EXPECT_TRUE(fit_model({&point, 1}, target_, targets::reference_gpu()).constants.empty());
}

TEST_P(CalibrateFit, AModelIsJudgedByTimesAndByWhatItChooses) {
  const Card card(*family_, {{"clocks_per_us", 0.7}, {"bytes_per_us", 0.6}, {"launch_us", 1.5}});
  const std::vector<TimedPoint> points = timed(card.profile(), kSeen);
  const FittedModel model = fit_model(points, target_, targets::reference_gpu());
  const ModelError before = judge_model(points, {}, target_, targets::reference_gpu()),
                   after = judge_model(points, model.constants, target_, targets::reference_gpu());
  ASSERT_EQ(before.points.size(), points.size());
  EXPECT_GT(before.expected_spread().mean, 0.05);
  EXPECT_LT(after.expected_spread().mean, 0.02);
  EXPECT_LE(after.chosen_spread().worst, before.chosen_spread().worst);
  for (const ModelError::Point& each : before.points) {
    EXPECT_GE(each.loss, 0);
    EXPECT_EQ(each.loss == 0, each.chosen == each.best) << each.chosen << " " << each.best;
  }
}

TEST_P(CalibrateFit, SpreadsAreOfAllPoints) {
  ModelError error;
  for (int i = 1; i <= 100; ++i) error.expected.push_back(0.01 * i);
  ModelError more;
  more.points = {{"a", "x", "y", 0.5}, {"b", "x", "x", 0}};
  error.add(more);
  EXPECT_NEAR(error.expected_spread().mean, 0.505, 1e-12);
  EXPECT_NEAR(error.expected_spread().p95, 0.95, 1e-12);
  EXPECT_NEAR(error.expected_spread().worst, 1, 1e-12);
  EXPECT_NEAR(error.chosen_spread().mean, 0.25, 1e-12);
}

// Of families whose constants have such a rate. The others' is the device's.
TEST_P(CalibrateFit, ProductsOf8BitElementsHaveARateOfTheirOwn) {
  plans_.push_back(std::make_shared<const plan::Plan>(
      plan::make_plan(ir::parse("graph g(x: e4m3[M, K], w: e4m3[N, K]) {\n  h = matmul x, w^T\n"
                                "  y = cast h -> bf16\n  return y\n}\n"),
                      {})));
  const std::string_view name = "eight_bit_slows";
  const auto value_of = [&](const auto& constants) {
    const auto found = std::ranges::find_if(
        constants, [&](const auto& each) { return std::string_view(each.name) == name; });
    return found == constants.end() ? 0.0 : found->value;
  };
  const double usual = value_of(family_->constants(targets::reference_gpu()));
  ASSERT_EQ(family_->name == "sm90_dense", usual > 0);
  ASSERT_FALSE(family_->why_not(*plans_.back(), step(2), target_));
  if (usual == 0) return;
  const Card card(*family_, {{name, 1.2}});
  const FittedModel model =
      fit_model(timed(card.profile(), kSeen), target_, targets::reference_gpu());
  EXPECT_NEAR(value_of(model.constants) / usual, 1.2, 0.05);
  plans_.pop_back();
  EXPECT_EQ(
      value_of(
          fit_model(timed(card.profile(), kSeen), target_, targets::reference_gpu()).constants),
      usual)
      << "16-bit elements do not tell";
}

std::vector<const codegen::KernelFamily*> with_constants() {
  std::vector<const codegen::KernelFamily*> out;
  for (const codegen::KernelFamily& family : codegen::all_families()) {
    if (family.constants != nullptr) out.push_back(&family);
  }
  return out;
}
INSTANTIATE_TEST_SUITE_P(Families, CalibrateFit, ::testing::ValuesIn(with_constants()),
                         [](const auto& each) { return std::string(each.param->name); });

}  // namespace
}  // namespace epifuse::cli
