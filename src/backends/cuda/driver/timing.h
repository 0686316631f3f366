// Times work on the GPU, several contenders against each other in one run: absolute times drift
// with the card's clock, their ratios do not.
#pragma once

#include <functional>
#include <vector>

namespace epifuse::cuda {

// Each run queues its work on the default stream. All throw UnavailableError without a GPU.

// Microseconds of each run on the device, one a round. Runs alternate one by one, in an order that
// rotates, so that all see the same clocks; the L2 cache is flushed before each. Stops after
// `rounds`, or when `seconds` have passed and three rounds are done.
std::vector<std::vector<double>> sample_interleaved(const std::vector<std::function<void()>>& runs,
                                                    int rounds, double seconds);

// The median of each run's samples.
std::vector<double> time_interleaved(const std::vector<std::function<void()>>& runs, int rounds,
                                     double seconds);

// Microseconds of each run, back to back in blocks of `block_seconds` whose second half is measured
// (0.8 and more let the card settle at its power limit): the median of `rounds` blocks, which
// alternate and rotate. The first run goes on for a while before, unmeasured.
std::vector<double> time_sustained(const std::vector<std::function<void()>>& runs,
                                   double block_seconds, int rounds = 3);

}  // namespace epifuse::cuda
