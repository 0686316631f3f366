// Times several ways to do the same against each other, within a budget.
#pragma once

#include <cstddef>
#include <functional>
#include <span>
#include <vector>

namespace epifuse::tune {

struct RaceRules {
  double budget_us = 0;    // of the clock, about: a run that has begun goes on
  double settling_us = 0;  // of the budget: runs that are not measured, until the clock has risen
  bool is_strict = false;  // measures nothing rather than two ways that take more than the budget
  int most_rounds = 12;
  int final_rounds = 0;  // of those nearly as fast as the best one, behind these
  double behind = 1.12;  // a way that takes more of the best one's time is dropped
  double margin = 0.99;  // of the usual way's time: what takes more does not replace it
  double long_us = 500;  // of ways that all take as long, one run says enough
};

// What a race needs of the world.
struct RaceTimer {
  // Runs these ways in this order, each once: the microseconds of each.
  std::function<std::vector<double>(std::span<const std::size_t>)> run;
  std::function<double()> now_us;
};

struct RaceResult {
  std::size_t winner = 0;
  std::vector<double> us;  // the median of each way, of two runs the shorter; 0: not measured
  std::size_t num_measured = 0;
  int rounds = 0;  // of the winner
};

// Way 0 is the usual one, the others are in the order of what is expected of them. Each runs once
// unmeasured, as long as half of the budget lasts: those behind do not take part, nor do long ones
// that are clearly slower by this run where the budget is strict. Then rounds begin with another
// way each time, from the second on without those that fell behind. Medians of the few that are
// left and nearly as fast become surer by the final rounds. One way alone is not measured. Where no
// round fits, the runs of the warm-up count if all are long.
RaceResult race(std::size_t num_ways, const RaceRules& rules, const RaceTimer& timer);

// The budget of the next of several steps, each of which has `budget_us`: setting up and the steps
// before have taken `spent_us` of it.
double budget_left(double budget_us, std::size_t num_before, double spent_us);

}  // namespace epifuse::tune
