// Which of several ways is best, measured twice.
#include "tune/rank.h"

#include <algorithm>
#include <numeric>
#include <tuple>

#include "base/check.h"

namespace epifuse::tune {

std::size_t least_behind(std::span<const double> interleaved, std::span<const double> sustained,
                         double most) {
  EPIFUSE_CHECK(!interleaved.empty() && interleaved.size() == sustained.size(),
                "every way is measured in both manners");
  const double best_interleaved = std::ranges::min(interleaved),
               best_sustained = std::ranges::min(sustained);
  const auto behind = [&](std::size_t i) {
    const double a = interleaved[i] / best_interleaved, b = sustained[i] / best_sustained;
    return std::tuple(a > most, std::max(a, b), a * b);
  };
  std::size_t best = 0;
  for (std::size_t i = 1; i < interleaved.size(); ++i) {
    if (behind(i) < behind(best)) best = i;
  }
  return best;
}

std::vector<std::size_t> finalists(std::span<const double> us, std::size_t most,
                                   std::size_t always) {
  EPIFUSE_CHECK(always < us.size(), "what always takes part is one of all");
  std::vector<std::size_t> out(us.size());
  std::iota(out.begin(), out.end(), std::size_t{0});
  std::stable_sort(out.begin(), out.end(),
                   [&](std::size_t a, std::size_t b) { return us[a] < us[b]; });
  out.resize(std::min(out.size(), most));
  if (std::find(out.begin(), out.end(), always) == out.end()) out.push_back(always);
  std::sort(out.begin(), out.end());
  return out;
}

}  // namespace epifuse::tune
