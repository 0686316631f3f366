#include "cli/sweep_judge.h"

#include <gtest/gtest.h>

#include "epifuse/error.h"

namespace epifuse::cli {
namespace {

const Point kPoint{"dense", "o_proj", 128, 4096, 4096, "residual"};

// Three right candidates, the model's choice second, and a wrong one that would be the fastest.
PointTimes three_candidates() {
  PointTimes point{kPoint};
  point.cublas = {10, 20};
  point.split = {15, 28};
  point.candidates = {{"a", 8, false, "", {9.5, 20}},
                      {"b", 7, true, "", {11.4, 19}},
                      {"c", 9, false, "", {10, 0}},
                      {"d", 9, false, "y[0, 0]: got 1, expected 2", {1, 1}}};
  return point;
}

TEST(SweepJudge, LossIsTheChoiceAgainstTheBestRightCandidate) {
  const Outcome outcome = judge(three_candidates());
  EXPECT_EQ(outcome.point, "o_proj 128x4096x4096 residual");
  EXPECT_EQ(outcome.chosen, "b");
  EXPECT_EQ(outcome.best, "a");
  EXPECT_EQ(outcome.best_sustained, "b");
  EXPECT_NEAR(outcome.loss, 0.2, 1e-12);
  EXPECT_EQ(outcome.loss_sustained, 0);
  EXPECT_DOUBLE_EQ(outcome.ratio, 1.14);
  EXPECT_DOUBLE_EQ(outcome.ratio_sustained, 0.95);
}

TEST(SweepJudge, AChoiceIsNeeded) {
  PointTimes point = three_candidates();
  point.candidates[1].chosen = false;
  EXPECT_THROW(judge(point), InternalError);
}

TEST(SweepJudge, RowsNameConfigAndChoiceAndLeaveWrongOnesOut) {
  const auto rows = rows_of(three_candidates());
  ASSERT_EQ(rows.size(), 5u);
  EXPECT_EQ(rows[1].contender, "candidate");
  EXPECT_EQ(rows[1].config, "b");
  EXPECT_TRUE(rows[1].chosen);
  EXPECT_EQ(rows[1].expected_us, 7);
  EXPECT_DOUBLE_EQ(rows[1].ratio, 1.14);
  EXPECT_EQ(rows[2].ratio_sustained, 0);  // not measured
  EXPECT_EQ(rows[3].contender, "cublas+tail");
  EXPECT_DOUBLE_EQ(rows[3].ratio_sustained, 1.4);
  EXPECT_EQ(rows[4].contender, "cublas");
  EXPECT_EQ(rows[4].us, 10);
}

TEST(SweepJudge, TotalsNameThePointsThatLoseMuch) {
  const Outcome outcome = judge(three_candidates());
  EXPECT_EQ(
      describe({outcome, outcome}),
      "over 2 points\n"
      "  choice behind the best   launch by launch 20.0 %, worst 20.0 %; sustained 0.0 %, "
      "worst 0.0 %\n"
      "  choice / bare cuBLAS     launch by launch 1.140, worst 1.140; sustained 0.950, worst "
      "0.950\n"
      "  over 8 %: o_proj 128x4096x4096 residual: 20.0 %, sustained 0.0 %; b, not a\n"
      "  over 8 %: o_proj 128x4096x4096 residual: 20.0 %, sustained 0.0 %; b, not a\n");
}

}  // namespace
}  // namespace epifuse::cli
