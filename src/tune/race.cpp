// Times several ways to do the same against each other, within a budget.
#include "tune/race.h"

#include <algorithm>

#include "base/check.h"
#include "base/measure.h"

namespace epifuse::tune {
namespace {

constexpr int kSureRounds = 3;

class Race {
 public:
  Race(std::size_t num_ways, const RaceRules& rules, const RaceTimer& timer)
      : rules_(rules), timer_(timer), samples_(num_ways), start_us_(timer.now_us()) {}

  RaceResult run() {
    warm_up();
    while (running_.size() > 1 && rounds_ < rules_.most_rounds && has_time()) run_round();
    return result();
  }

 private:
  double spent_us() const { return timer_.now_us() - start_us_; }

  void warm_up() {
    for (std::size_t way = 0; way < samples_.size(); ++way) {
      if (way > 1 && spent_us() > rules_.budget_us / 2) break;
      timer_.run(std::span(&way, 1));
      running_.push_back(way);
    }
  }

  // Whether a round like the last one fits; the first always runs.
  bool has_time() const { return rounds_ == 0 || spent_us() + round_us_ <= rules_.budget_us; }

  void run_round() {
    const double before = spent_us();
    std::vector<std::size_t> order = running_;
    const auto first = static_cast<std::size_t>(rounds_) % order.size();
    std::rotate(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(first), order.end());
    const std::vector<double> us = timer_.run(order);
    EPIFUSE_CHECK(us.size() == order.size(), "a round times each way");
    for (std::size_t i = 0; i < order.size(); ++i) samples_[order[i]].push_back(us[i]);
    round_us_ = spent_us() - before;
    ++rounds_;
    drop_slow();
  }

  void drop_slow() {
    double best = median_of(running_.front());
    for (const std::size_t way : running_) best = std::min(best, median_of(way));
    // One run may be disturbed: the first rounds drop only what is far behind.
    const double behind = rounds_ < kSureRounds ? 2 * rules_.behind - 1 : rules_.behind;
    std::erase_if(running_, [&](std::size_t way) { return median_of(way) > behind * best; });
  }

  double median_of(std::size_t way) const { return median(samples_[way]); }

  RaceResult result() const {
    RaceResult out;
    for (std::size_t way = 0; way < samples_.size(); ++way) {
      out.us.push_back(samples_[way].empty() ? 0 : median_of(way));
      out.num_measured += samples_[way].empty() ? 0 : 1;
    }
    if (out.num_measured == 0) return out;
    out.winner =
        *std::ranges::min_element(running_, {}, [&](std::size_t way) { return out.us[way]; });
    if (out.us[0] > 0 && out.us[out.winner] > rules_.margin * out.us[0]) out.winner = 0;
    out.rounds = static_cast<int>(samples_[out.winner].size());
    return out;
  }

  const RaceRules& rules_;
  const RaceTimer& timer_;
  std::vector<std::vector<double>> samples_;  // by way
  const double start_us_;
  std::vector<std::size_t> running_;  // the ways that were not dropped, in order
  double round_us_ = 0;               // of the last one
  int rounds_ = 0;
};

}  // namespace

RaceResult race(std::size_t num_ways, const RaceRules& rules, const RaceTimer& timer) {
  EPIFUSE_CHECK(num_ways > 0, "a race has a way");
  return Race(num_ways, rules, timer).run();
}

}  // namespace epifuse::tune
