// Which candidates of a sweep are timed again.
#pragma once

#include <cstddef>
#include <functional>
#include <vector>

namespace epifuse::cli {

// Microseconds of the runs of these places, timed against each other.
using TimePlaces = std::function<std::vector<double>(const std::vector<std::size_t>&)>;

// The least of many short measurements is a lucky one. So `always` and the candidates (from place
// `first` on) near the best are timed again, with others that then seem to be ahead of all of them,
// and their `us` are replaced.
void time_finals(std::vector<double>& us, std::size_t first, const std::vector<std::size_t>& always,
                 const TimePlaces& time);

}  // namespace epifuse::cli
