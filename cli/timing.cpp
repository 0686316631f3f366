#include "timing.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <mutex>
#include <thread>

#include "backends/cuda/driver/timing.h"
#include "base/measure.h"

namespace epifuse::cli {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kFewestOnCpu = 15;  // other programs disturb most rounds a little
constexpr double kQuietSeconds = 2.0;
constexpr double kLeastUs = 1e-3;  // of a run without work, so that ratios are numbers

using Runs = std::vector<std::function<void()>>;

std::vector<std::vector<double>> sample_on_cpu(const Runs& runs, int rounds, double seconds) {
  std::vector<std::vector<double>> us(runs.size());
  for (const auto& run : runs) run();  // warm-up: buffers, primitives
  const Clock::time_point start = Clock::now();
  for (int round = 0; round < rounds; ++round) {
    if (round >= kFewestOnCpu && seconds_since(start) > seconds) break;
    for (std::size_t i = 0; i < runs.size(); ++i) {
      const std::size_t which = (i + static_cast<std::size_t>(round)) % runs.size();
      const Clock::time_point begin = Clock::now();
      runs[which]();
      us[which].push_back(seconds_since(begin) * 1e6);
    }
  }
  return us;
}

// The sample below which `share` of them lie.
double quantile(std::vector<double> samples, double share) {
  std::ranges::sort(samples);
  return samples[static_cast<std::size_t>(share * static_cast<double>(samples.size() - 1) + 0.5)];
}

}  // namespace

Comparison compare_rounds(const std::vector<double>& us, const std::vector<double>& baseline_us) {
  std::vector<double> ratios;
  for (std::size_t i = 0; i < us.size(); ++i) {
    ratios.push_back(std::max(us[i], kLeastUs) / std::max(baseline_us[i], kLeastUs));
  }
  Comparison out;
  out.num_rounds = ratios.size();
  out.low = quantile(ratios, 0.25);
  out.high = quantile(ratios, 0.75);
  out.ratio = quantile(std::move(ratios), 0.5);
  out.baseline_us = median(baseline_us);
  out.us = out.ratio * out.baseline_us;
  return out;
}

std::string ratio_text(const Comparison& comparison) {
  const double saved = 100 * (1 - comparison.ratio);
  const std::string meaning =
      comparison.high < 1  ? fmt::format("fusion saves {:.0f} % of the time", saved)
      : comparison.low > 1 ? fmt::format("fusion takes {:.0f} % longer here", -saved)
                           : "no clear difference";
  return fmt::format("ratio {:.2f}, {:.2f} to {:.2f} in the middle half of {} rounds: {}",
                     comparison.ratio, comparison.low, comparison.high, comparison.num_rounds,
                     meaning);
}

Comparison compare_times(const Target& target, const std::function<void()>& run,
                         const std::function<void()>& baseline, int rounds, double seconds) {
  const Runs runs{run, baseline};
  const auto us = target.kind == DeviceKind::cpu ? sample_on_cpu(runs, rounds, seconds)
                                                 : cuda::sample_interleaved(runs, rounds, seconds);
  return compare_rounds(us[0], us[1]);
}

struct Progress::State {
  std::string what;
  std::mutex mutex;
  std::condition_variable changed;
  bool done = false;
  std::thread watcher;
};

Progress::Progress(std::string what) : state_(std::make_shared<State>()) {
  state_->what = std::move(what);
  state_->watcher = std::thread([state = state_.get()] {
    std::unique_lock lock(state->mutex);
    // After 2, 4, 8, .. 64 seconds, then every minute.
    double seconds = 0, wait = kQuietSeconds;
    while (!state->changed.wait_for(lock, std::chrono::duration<double>(wait),
                                    [&] { return state->done; })) {
      seconds += wait;
      wait = std::min(seconds, 60.0);
      std::fputs(fmt::format("epifuse: {} ... {:.0f} s\n", state->what, seconds).c_str(), stderr);
    }
  });
}

Progress::~Progress() {
  {
    const std::scoped_lock lock(state_->mutex);
    state_->done = true;
  }
  state_->changed.notify_all();
  state_->watcher.join();
}

}  // namespace epifuse::cli
