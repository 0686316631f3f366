// Times two ways to do the same work against each other, and says what is taking long.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "epifuse/program.h"

namespace epifuse::cli {

// Two ways to do the same work. The machine slows down whole rounds, so the ratio of the two within
// a round is what can be trusted.
struct Comparison {
  double us = 0, baseline_us = 0;  // us is ratio * baseline_us, so that they agree
  double ratio = 0;                // the median over rounds
  double low = 0, high = 0;        // the middle half of the rounds' ratios lies between
  std::size_t num_rounds = 0;
};

// From microseconds of both in each round; both hold as many, at least one.
Comparison compare_rounds(const std::vector<double>& us, const std::vector<double>& baseline_us);

// "ratio 0.87, 0.85 to 0.89 in the middle half of 300 rounds: fusion saves 13 % of the time".
std::string ratio_text(const Comparison& comparison);

// Times `run` and `baseline` in turns that rotate; on CUDA the L2 cache is flushed before each.
// Stops after `rounds`, or when `seconds` have passed and a few rounds are done.
Comparison compare_times(const Target& target, const std::function<void()>& run,
                         const std::function<void()>& baseline, int rounds, double seconds);

// Prints "what ..." on stderr when the scope takes longer than two seconds, and how long it took.
class Progress {
 public:
  explicit Progress(std::string what);
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace epifuse::cli
