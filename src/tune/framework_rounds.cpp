// What is measured of a framework's way, by the time there is.
#include "tune/framework_rounds.h"

#include <algorithm>

namespace epifuse::tune {

std::optional<FrameworkRounds> what_fits(const FrameworkWay& way, double left_us) {
  constexpr int kMost = 5;
  constexpr double kLongUs = 1000;  // one run of what takes as long says enough
  const int fewest = way.chosen_us >= kLongUs ? 1 : 2;
  const auto rounds = [&](double round_us) {
    return static_cast<int>(std::min<double>(left_us / round_us, kMost + 1)) - 1;
  };
  const int products_as_asked = way.pads ? 2 : 1;
  const int all = rounds(way.chosen_us + 4 * way.split_us);
  if (all >= fewest) return FrameworkRounds{true, true, all};
  if (!way.is_rate_known) return std::nullopt;
  const int products = rounds(way.chosen_us + products_as_asked * way.split_us);
  if (products >= fewest) return FrameworkRounds{false, true, products};
  const int padded = rounds(2 * way.chosen_us);
  if (!way.pads || padded < fewest) return std::nullopt;
  return FrameworkRounds{false, false, padded};
}

}  // namespace epifuse::tune
