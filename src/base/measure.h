// What everything that measures shares: a stopwatch, and means of samples.
#pragma once

#include <chrono>
#include <span>
#include <vector>

namespace epifuse {

double seconds_since(std::chrono::steady_clock::time_point start);

// The middle of at least one sample; of an even number the upper one of the two.
double median(std::vector<double> samples);

// Of positive samples; 1 of none.
double geometric_mean(std::span<const double> samples);

}  // namespace epifuse
