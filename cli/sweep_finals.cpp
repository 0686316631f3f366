#include "sweep_finals.h"

#include <algorithm>
#include <limits>
#include <set>

namespace epifuse::cli {
namespace {

constexpr double kNear = 1.08;  // times the best: medians of six rounds scatter by 4 % at 6 us

}  // namespace

void time_finals(std::vector<double>& us, std::size_t first, const std::vector<std::size_t>& always,
                 const TimePlaces& time) {
  std::set<std::size_t> finals(always.begin(), always.end());
  const auto add = [&](double most) {
    const std::size_t before = finals.size();
    for (std::size_t i = first; i < us.size(); ++i) {
      if (us[i] <= most) finals.insert(i);
    }
    return finals.size() > before;
  };
  double best = std::numeric_limits<double>::infinity();
  for (std::size_t i = first; i < us.size(); ++i) best = std::min(best, us[i]);
  add(kNear * best);
  do {
    const std::vector<std::size_t> places(finals.begin(), finals.end());
    const std::vector<double> again = time(places);
    best = std::numeric_limits<double>::infinity();
    for (std::size_t i = 0; i < places.size(); ++i) {
      us[places[i]] = again[i];
      if (places[i] >= first) best = std::min(best, again[i]);
    }
  } while (add(best));
}

}  // namespace epifuse::cli
