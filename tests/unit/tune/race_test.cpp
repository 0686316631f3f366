// Ways timed against each other by a made-up clock: what is dropped, what wins, what fits.
#include "tune/race.h"

#include <gtest/gtest.h>

#include <numeric>

namespace epifuse::tune {
namespace {

// Each way takes its time, and a run of any costs as much of the clock.
struct World {
  std::vector<double> us;
  double noise = 0;  // added to every second run
  double now = 0;
  int num_runs = 0;
  std::vector<std::size_t> order;

  RaceTimer timer() {
    return {[this](std::span<const std::size_t> ways) {
              std::vector<double> out;
              for (const std::size_t way : ways) {
                out.push_back(us[way] + (++num_runs % 2 == 0 ? noise : 0));
                now += us[way];
                order.push_back(way);
              }
              return out;
            },
            [this] { return now; }};
  }
};

RaceResult run(World& world, const RaceRules& rules) {
  return race(world.us.size(), rules, world.timer());
}

TEST(Race, TheFastestWinsAndTheSlowLeaveAfterTheirFirstRound) {
  World world{{30, 20, 60, 20.5}};
  const RaceResult result = run(world, {.budget_us = 1e6, .most_rounds = 10});
  EXPECT_EQ(result.winner, 1u);
  EXPECT_EQ(result.rounds, 10);
  EXPECT_EQ(result.us, (std::vector<double>{30, 20, 60, 20.5}));
  EXPECT_EQ(result.num_measured, 4u);
  EXPECT_EQ(world.num_runs, 4 + 4 + 2 * 9) << "warm-up, all, then the two that are near";
}

TEST(Race, TheUsualWayStaysUnlessAnotherIsClearlyFaster) {
  World close{{20, 19.9}};
  EXPECT_EQ(run(close, {.budget_us = 1e6}).winner, 0u);
  World clear{{20, 19.7}};
  EXPECT_EQ(run(clear, {.budget_us = 1e6}).winner, 1u);
}

TEST(Race, EndsBeforeARoundThatWouldPassTheBudget) {
  World world{{100, 101}};
  const RaceResult result = run(world, {.budget_us = 1000, .most_rounds = 50});
  EXPECT_EQ(result.rounds, 3) << "the warm-up takes 201 of 1000, each round 201";
  EXPECT_LE(world.now, 1000);
}

TEST(Race, WaysForWhichTheWarmUpHasNoTimeDoNotTakePart) {
  World world{{300, 280, 290, 10}};
  const RaceResult result = run(world, {.budget_us = 1000});
  EXPECT_EQ(result.winner, 1u);
  EXPECT_EQ(result.us[2], 0);
  EXPECT_EQ(result.us[3], 0);
  EXPECT_EQ(result.num_measured, 2u);
}

TEST(Race, TwoWaysRunOnceEvenWhereTheBudgetIsShort) {
  World world{{9000, 5000}};
  const RaceResult result = run(world, {.budget_us = 1000});
  EXPECT_EQ(result.winner, 1u);
  EXPECT_EQ(result.rounds, 1);
}

TEST(Race, RoundsBeginWithAnotherWayEachTime) {
  World world{{10, 10.1, 10.2}};
  run(world, {.budget_us = 1e6, .most_rounds = 3});
  EXPECT_EQ(world.order, (std::vector<std::size_t>{0, 1, 2, 0, 1, 2, 1, 2, 0, 2, 0, 1}));
}

TEST(Race, OneWayAloneIsNotMeasured) {
  World world{{10}};
  EXPECT_EQ(run(world, {.budget_us = 1e6}).num_measured, 0u);
}

}  // namespace
}  // namespace epifuse::tune
