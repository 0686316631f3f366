// Which of several ways is best, measured twice.
#include "tune/rank.h"

#include <algorithm>
#include <numeric>
#include <tuple>

#include "base/check.h"

namespace epifuse::tune {
namespace {

std::ptrdiff_t rank(std::span<const double> us, std::size_t which) {
  return std::count_if(us.begin(), us.end(), [&](double other) { return other < us[which]; });
}

}  // namespace

std::size_t best_of_worse_ranks(std::span<const double> interleaved,
                                std::span<const double> sustained) {
  EPIFUSE_CHECK(!interleaved.empty() && interleaved.size() == sustained.size(),
                "every way is measured in both manners");
  const auto order = [&](std::size_t i) {
    const std::ptrdiff_t a = rank(interleaved, i), b = rank(sustained, i);
    return std::tuple(std::max(a, b), std::min(a, b), interleaved[i] * sustained[i]);
  };
  std::size_t best = 0;
  for (std::size_t i = 1; i < interleaved.size(); ++i) {
    if (order(i) < order(best)) best = i;
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
