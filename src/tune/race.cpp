// Times several ways to do the same against each other, within a budget.
#include "tune/race.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/measure.h"

namespace epifuse::tune {
namespace {

constexpr int kSureRounds = 3;
constexpr double kFarBehind = 3;     // one short run alone drops a way by this
constexpr double kNear = 1.04;       // of the best one's time
constexpr double kShortRound = 0.2;  // of the budget

class Race {
 public:
  Race(std::size_t num_ways, const RaceRules& rules, const RaceTimer& timer)
      : rules_(rules),
        timer_(timer),
        samples_(num_ways),
        first_us_(num_ways),
        cost_us_(num_ways),
        start_us_(timer.now_us()) {}

  RaceResult run() {
    warm_up();
    if (rules_.is_strict) {
      drop_by_first_runs();
      leave_out_what_does_not_fit();
    }
    run_rounds(rules_.most_rounds);
    if (rounds_ == rules_.most_rounds && rules_.final_rounds > 0) {
      drop_above(kNear);
      run_rounds(rules_.most_rounds + rules_.final_rounds);
    }
    if (rounds_ == 0) take_first_runs();
    return result();
  }

 private:
  double spent_us() const { return timer_.now_us() - start_us_; }

  void warm_up() {
    for (std::size_t way = 0; way < samples_.size(); ++way) {
      const double before = spent_us();
      if (way > (rules_.is_strict ? 0 : 1) && before > rules_.budget_us / 2) break;
      first_us_[way] = timer_.run(std::span(&way, 1)).front();
      cost_us_[way] = spent_us() - before;
      running_.push_back(way);
      if (way == 0) settle();
    }
  }

  // The clock of a card that was idle rises under load: the first ways would seem slow.
  void settle() {
    if (samples_.size() < 2) return;
    constexpr double kMostAtOnce = 8;
    const double at_once = std::min(rules_.settling_us / cost_us_[running_[0]], kMostAtOnce);
    if (at_once < 1) return;  // one run of the warm-up has taken that long
    const std::vector<std::size_t> order(static_cast<std::size_t>(at_once), running_[0]);
    const double until = spent_us() + rules_.settling_us;
    while (spent_us() < until) timer_.run(order);
  }

  // One run tells which of many long ways are worth a round. The usual one ran on a card that was
  // idle.
  void drop_by_first_runs() {
    double best = first_us_[0];
    for (const std::size_t way : running_) best = std::min(best, first_us_[way]);
    if (best < rules_.long_us) return;
    std::erase_if(running_, [&](std::size_t way) {
      return way != 0 && first_us_[way] > behind_once() * best;
    });
  }

  // The warm-up may have loaded code, so that its costs say too much: no way counts for more than
  // what would drop it, and a short round is always run.
  void leave_out_what_does_not_fit() {
    double least = cost_us_[0];
    for (const std::size_t way : running_) least = std::min(least, cost_us_[way]);
    const double left = std::max(rules_.budget_us - spent_us(), kShortRound * rules_.budget_us);
    double round_us = 0;
    std::size_t fit = 0;
    for (; fit < running_.size(); ++fit) {
      round_us += std::min(cost_us_[running_[fit]], kFarBehind * least);
      if (round_us > left) break;
    }
    running_.resize(fit < 2 ? 0 : fit);
  }

  // Of ways that take so long that no round of two fits, the runs of the warm-up say enough.
  void take_first_runs() {
    std::vector<std::size_t> ran;
    for (std::size_t way = 0; way < first_us_.size(); ++way) {
      if (first_us_[way] > 0) ran.push_back(way);
    }
    const auto is_long = [&](std::size_t way) { return first_us_[way] >= rules_.long_us; };
    if (ran.size() < 2 || !std::ranges::all_of(ran, is_long)) return;
    for (const std::size_t way : ran) samples_[way].push_back(first_us_[way]);
    running_ = std::move(ran);
  }

  // Whether a round like the last one fits; the first always runs.
  bool has_time() const { return rounds_ == 0 || spent_us() + round_us_ <= rules_.budget_us; }

  void run_rounds(int most) {
    while (running_.size() > 1 && rounds_ < most && has_time()) run_round();
  }

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

  // A run may be disturbed, so that two say more than one, and the first ones drop only what is
  // far behind.
  void drop_slow() {
    if (rounds_ >= kSureRounds) return drop_above(rules_.behind);
    drop_above(rounds_ == 1 && best_us() < rules_.long_us ? kFarBehind : behind_once());
  }

  void drop_above(double behind) {
    const double best = best_us();
    std::erase_if(running_, [&](std::size_t way) { return typical_of(way) > behind * best; });
  }

  double best_us() const {
    double best = typical_of(running_.front());
    for (const std::size_t way : running_) best = std::min(best, typical_of(way));
    return best;
  }

  // Drops what has run once or twice.
  double behind_once() const { return 2 * rules_.behind - 1; }

  // Of few runs the shortest.
  double typical_of(std::size_t way) const {
    const std::vector<double>& us = samples_[way];
    return us.size() < kSureRounds ? std::ranges::min(us) : median(us);
  }

  RaceResult result() const {
    RaceResult out;
    for (std::size_t way = 0; way < samples_.size(); ++way) {
      out.us.push_back(samples_[way].empty() ? 0 : typical_of(way));
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
  std::vector<double> first_us_, cost_us_;    // by the warm-up: of the way, of the clock
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

double budget_left(double budget_us, std::size_t num_before, double spent_us) {
  return std::max(budget_us * static_cast<double>(num_before + 1) - spent_us, 0.0);
}

}  // namespace epifuse::tune
