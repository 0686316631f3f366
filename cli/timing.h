// Times several ways to do the same work against each other.
#pragma once

#include <functional>
#include <vector>

#include "epifuse/program.h"

namespace epifuse::cli {

// Median microseconds of each run. Runs alternate one by one, in an order that rotates, so that all
// see the same clocks; on CUDA the L2 cache is flushed before each. On the CPU they are the last
// run's median times the median over rounds of each run's ratio to it. Stops after `rounds`, or
// when `seconds` have passed and a few rounds are done.
std::vector<double> time_interleaved(const Target& target,
                                     const std::vector<std::function<void()>>& runs, int rounds,
                                     double seconds);

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
