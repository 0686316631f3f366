#include "timing.h"

#include <fmt/format.h>

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

std::vector<double> time_on_cpu(const std::vector<std::function<void()>>& runs, int rounds,
                                double seconds) {
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
  // What the machine does beside this slows down whole rounds: their ratios drift less than times.
  const std::vector<double> last = us.back();
  const double last_us = median(last);
  std::vector<double> out;
  for (auto& each : us) {
    for (std::size_t round = 0; round < each.size(); ++round) each[round] /= last[round];
    out.push_back(median(std::move(each)) * last_us);
  }
  return out;
}

}  // namespace

std::vector<double> time_interleaved(const Target& target,
                                     const std::vector<std::function<void()>>& runs, int rounds,
                                     double seconds) {
  if (target.kind == DeviceKind::cpu) return time_on_cpu(runs, rounds, seconds);
  return cuda::time_interleaved(runs, rounds, seconds);
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
    const auto wait = std::chrono::duration<double>(kQuietSeconds);
    for (int waits = 1; !state->changed.wait_for(lock, wait, [&] { return state->done; });
         ++waits) {
      std::fputs(
          fmt::format("epifuse: {} ... {:.0f} s\n", state->what, waits * kQuietSeconds).c_str(),
          stderr);
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
