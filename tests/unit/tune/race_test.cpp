// Ways timed against each other by a made-up clock: what is dropped, what wins, what fits.
#include "tune/race.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <utility>

namespace epifuse::tune {
namespace {

// Each way takes its time, and a run of any costs as much of the clock.
struct World {
  std::vector<double> us;
  double noise = 0;  // added to every second run
  double idle = 0;   // until then the clock is low: all takes twice as long
  double now = 0;
  int num_runs = 0;
  std::vector<std::size_t> order;

  RaceTimer timer() {
    return {[this](std::span<const std::size_t> ways) {
              std::vector<double> out;
              for (const std::size_t way : ways) {
                const double slow = now < idle ? 2 : 1;
                out.push_back(slow * us[way] + (++num_runs % 2 == 0 ? noise : 0));
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

TEST(Race, TheFastestWinsAndTheSlowLeaveAfterTheirSecondRound) {
  World world{{30, 20, 70, 20.5}};
  const RaceResult result = run(world, {.budget_us = 1e6, .most_rounds = 10});
  EXPECT_EQ(result.winner, 1u);
  EXPECT_EQ(result.rounds, 10);
  EXPECT_EQ(result.us, (std::vector<double>{30, 20, 70, 20.5}));
  EXPECT_EQ(result.num_measured, 4u);
  EXPECT_EQ(world.num_runs, 4 + 4 + 3 + 2 * 8) << "warm-up, all, one far behind leaves, one more";
}

TEST(Race, FinalRoundsAreOfThoseThatAreNearlyAsFast) {
  World world{{30, 20, 20.5, 21.5}};
  const RaceResult result = run(world, {.budget_us = 1e6, .most_rounds = 4, .final_rounds = 5});
  EXPECT_EQ(result.winner, 1u);
  EXPECT_EQ(result.rounds, 9);
  EXPECT_EQ(world.num_runs, 4 + 2 * 4 + 2 * 3 + 5 * 2) << "warm-up; one leaves after two rounds";
  World short_of_time{{30, 20, 20.5, 21.5}};
  EXPECT_EQ(run(short_of_time, {.budget_us = 500, .most_rounds = 4, .final_rounds = 5}).rounds, 6);
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

TEST(Race, AWayWhoseFirstRunWasDisturbedStays) {
  World world{{20, 18}, 20};
  world.num_runs = 1;  // the noise hits the first run of the warm-up, then way 1, then way 0, ..
  World same = world;
  EXPECT_EQ(run(world, {.budget_us = 1e6, .most_rounds = 2}).us, (std::vector<double>{20, 18}))
      << "of two runs the shorter counts";
  EXPECT_GT(run(same, {.budget_us = 1e6}).rounds, 2);
}

TEST(Race, ACardThatWasIdleIsUnderLoadBeforeAnythingIsMeasured) {
  World cold{{20, 22, 30, 21}, 0, 400};
  World settled = cold;
  EXPECT_EQ(run(cold, {.budget_us = 1e4, .most_rounds = 1}).us[0], 40);
  const RaceResult result = run(settled, {.budget_us = 1e4, .settling_us = 500, .most_rounds = 1});
  EXPECT_EQ(result.us, (std::vector<double>{20, 22, 30, 21}));
  EXPECT_GE(settled.now, 500);
}

TEST(Race, AStrictBudgetHoldsForWaysOfAnyTimes) {
  constexpr double kBudget = 50e3, kMost = 60e3;
  std::mt19937_64 random(1);
  std::uniform_real_distribution<double> exponent(0, 5), factor(1, 3);
  int num_measured = 0;
  for (int i = 0; i < 500; ++i) {
    World world;
    const double usual = std::pow(10, exponent(random));
    for (int way = 0; way < 7; ++way) world.us.push_back(usual * factor(random) / 2);
    const RaceResult result =
        run(world, {.budget_us = kBudget, .settling_us = kBudget / 10, .is_strict = true});
    num_measured += result.num_measured > 0 ? 1 : 0;
    const bool one_run_is_longer = world.us[0] > kBudget / 2;
    EXPECT_LE(world.now, one_run_is_longer ? world.us[0] + world.us[1] : kMost) << usual;
    EXPECT_EQ(result.num_measured >= 2, result.num_measured > 0);
    EXPECT_TRUE(usual > 300 || result.num_measured == 7) << "none is long";
  }
  EXPECT_GT(num_measured, 300);
}

TEST(Race, OneRunSaysEnoughOfLongWaysForWhichNoRoundFits) {
  World world{{1500, 6000}};
  const RaceRules rules{.budget_us = 12e3, .settling_us = 1.5e3, .is_strict = true};
  const RaceResult result = run(world, rules);
  EXPECT_EQ(result.us, (std::vector<double>{1500, 6000}));
  EXPECT_EQ(result.rounds, 1);
  EXPECT_EQ(world.num_runs, 3) << "the warm-up, and one of the usual way for the clock";
  World swapped{{6000, 1500}};
  EXPECT_EQ(run(swapped, rules).winner, 1u);
  World shorter{{490, 6000}};
  EXPECT_EQ(run(shorter, {.budget_us = 7e3, .is_strict = true}).num_measured, 0u);
}

TEST(Race, OfManyLongWaysThoseThatAreClearlySlowerRunOnce) {
  World world{{2000, 3000, 2200, 4000, 1500, 5000, 1990}};
  const RaceRules rules{.budget_us = 60e3, .settling_us = 2e3, .is_strict = true, .most_rounds = 3};
  const RaceResult result = run(world, rules);
  EXPECT_EQ(result.winner, 4u);
  EXPECT_EQ(result.us, (std::vector<double>{2000, 0, 0, 0, 1500, 0, 0}))
      << "the usual one takes part";
  EXPECT_EQ(world.num_runs, 7 + 1 + 2) << "warm-up, settling, and a round of two";
  World lax{world.us};
  EXPECT_EQ(run(lax, {.budget_us = 1e6, .most_rounds = 1}).num_measured, 7u);
}

TEST(Race, ACardThatWasIdleDropsNoLongWayByItsFirstRun) {
  World world{{2000, 1500, 1600}, 0, 3000};
  const RaceRules rules{.budget_us = 60e3, .settling_us = 3e3, .is_strict = true, .most_rounds = 3};
  EXPECT_EQ(run(world, rules).us, (std::vector<double>{2000, 1500, 1600}));
}

TEST(Race, CodeThatTheWarmUpLoadsDoesNotUseUpAStrictBudget) {
  World world{{20, 18, 30}};
  RaceTimer timer = world.timer();
  bool is_loaded = false;
  timer.run = [&, run = timer.run](std::span<const std::size_t> ways) {
    if (ways.front() == 1 && !std::exchange(is_loaded, true)) world.now += 30e3;
    return run(ways);
  };
  const RaceResult result = race(3, {.budget_us = 20e3, .is_strict = true}, timer);
  EXPECT_EQ(result.num_measured, 2u) << "there was no time for the warm-up of the third";
  EXPECT_EQ(result.winner, 1u);
  EXPECT_LT(world.now, 30.2e3) << "one round";
}

TEST(Race, WhatSettingUpTookIsTakenOffTheBudgetOfTheSteps) {
  EXPECT_EQ(budget_left(50, 0, 12), 38);
  EXPECT_EQ(budget_left(50, 1, 45), 55);
  EXPECT_EQ(budget_left(50, 0, 70), 0);
}

TEST(Race, OneWayAloneIsNotMeasured) {
  World world{{10}};
  EXPECT_EQ(run(world, {.budget_us = 1e6}).num_measured, 0u);
}

}  // namespace
}  // namespace epifuse::tune
