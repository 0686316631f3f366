// Times work on the GPU with events.
#include "backends/cuda/driver/timing.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <memory>

#include "backends/cuda/driver/device.h"
#include "backends/cuda/driver/memory.h"
#include "base/measure.h"

namespace epifuse::cuda {
namespace {

using Clock = std::chrono::steady_clock;
using Runs = std::vector<std::function<void()>>;

constexpr int kFewestRounds = 3;
constexpr int kRoundsInFlight = 8;  // before the host waits for the device
constexpr double kWarmUpSeconds = 0.15;
constexpr double kSettlingSeconds = 0.6;  // under load, until the card is at its power limit
constexpr int kCalibrationLaunches = 20;
constexpr std::size_t kFlushBytes = std::size_t{256} << 20;  // larger than any L2

// The time on the device between two points of a stream.
class Span {
 public:
  explicit Span(const Device& device, jit::CuStream stream = nullptr)
      : device_(device), stream_(stream) {
    device_.check(device_.api().event_create(&begin_, jit::kEventDefault), "cuEventCreate");
    device_.check(device_.api().event_create(&end_, jit::kEventDefault), "cuEventCreate");
  }
  ~Span() {
    device_.api().event_destroy(begin_);
    if (end_ != nullptr) device_.api().event_destroy(end_);
  }
  Span(const Span&) = delete;
  Span& operator=(const Span&) = delete;

  void begin() { device_.check(device_.api().event_record(begin_, stream_), "cuEventRecord"); }
  void end() { device_.check(device_.api().event_record(end_, stream_), "cuEventRecord"); }
  double wait_us() const {
    device_.check(device_.api().event_synchronize(end_), "cuEventSynchronize");
    float milliseconds = 0;
    device_.check(device_.api().event_elapsed_time(&milliseconds, begin_, end_),
                  "cuEventElapsedTime");
    return milliseconds * 1e3;
  }

 private:
  const Device& device_;
  const jit::CuStream stream_;
  jit::CuEvent begin_ = nullptr, end_ = nullptr;
};

void warm_up(const Device& device, const Runs& runs) {
  const Clock::time_point start = Clock::now();
  do {
    for (const auto& run : runs) run();
    synchronize(device);
  } while (seconds_since(start) < kWarmUpSeconds);
}

// `settling` launches go first, unmeasured: the clock still follows the load of the block before.
double time_block_us(const Device& device, const std::function<void()>& run, int settling,
                     int launches) {
  Span span(device);
  for (int i = 0; i < settling; ++i) run();
  span.begin();
  for (int i = 0; i < launches; ++i) run();
  span.end();
  return span.wait_us() / launches;
}

std::vector<double> medians(std::vector<std::vector<double>> samples) {
  std::vector<double> result;
  for (auto& each : samples) result.push_back(median(std::move(each)));
  return result;
}

}  // namespace

class RoundTimer::Spans : public std::vector<std::unique_ptr<Span>> {};

RoundTimer::RoundTimer(std::shared_ptr<const Device> device, jit::CuStream stream,
                       std::size_t flush_bytes)
    : device_(std::move(device)),
      stream_(stream),
      flush_(device_, flush_bytes),
      spans_(std::make_unique<Spans>()) {}

RoundTimer::~RoundTimer() = default;

std::vector<double> RoundTimer::run(std::span<const std::function<void()>> runs) {
  while (spans_->size() < runs.size()) {
    spans_->push_back(std::make_unique<Span>(*device_, stream_));
  }
  for (std::size_t i = 0; i < runs.size(); ++i) {
    Span& span = *(*spans_)[i];
    flush_.fill(0, stream_);
    span.begin();
    runs[i]();
    span.end();
  }
  std::vector<double> us;
  for (std::size_t i = 0; i < runs.size(); ++i) us.push_back((*spans_)[i]->wait_us());
  return us;
}

std::vector<std::vector<double>> sample_interleaved(const Runs& runs, int rounds, double seconds) {
  const std::shared_ptr<const Device> device = Device::require();
  DeviceBuffer flush(device, kFlushBytes);
  warm_up(*device, runs);
  std::vector<std::vector<double>> us(runs.size());
  std::vector<std::unique_ptr<Span>> spans;
  for (std::size_t i = 0; i < runs.size() * kRoundsInFlight; ++i) {
    spans.push_back(std::make_unique<Span>(*device));
  }
  const Clock::time_point start = Clock::now();
  for (int round = 0; round < std::max(rounds, kFewestRounds);) {
    if (round >= kFewestRounds && seconds_since(start) > seconds) break;
    // Short rounds keep the device busy; the host looks at the clock between batches of them.
    const int batch = std::min(round < kFewestRounds ? kFewestRounds : kRoundsInFlight,
                               std::max(rounds, kFewestRounds) - round);
    for (std::size_t i = 0; i < runs.size() * static_cast<std::size_t>(batch); ++i) {
      const std::size_t which = (i + i / runs.size()) % runs.size();
      flush.fill(0);
      spans[i]->begin();
      runs[which]();
      spans[i]->end();
    }
    for (std::size_t i = 0; i < runs.size() * static_cast<std::size_t>(batch); ++i) {
      us[(i + i / runs.size()) % runs.size()].push_back(spans[i]->wait_us());
    }
    round += batch;
  }
  return us;
}

std::vector<double> time_interleaved(const Runs& runs, int rounds, double seconds) {
  return medians(sample_interleaved(runs, rounds, seconds));
}

std::vector<double> time_sustained(const Runs& runs, double block_seconds, int rounds) {
  const std::shared_ptr<const Device> device = Device::require();
  warm_up(*device, runs);
  std::vector<int> launches;
  for (const auto& run : runs) {
    const double us = std::max(time_block_us(*device, run, 0, kCalibrationLaunches), 0.1);
    launches.push_back(std::max(1, static_cast<int>(std::ceil(block_seconds * 0.5e6 / us))));
  }
  // Cool at first, the card runs faster than it will: whoever came first would win.
  const double halves = 2 * kSettlingSeconds / block_seconds;
  time_block_us(*device, runs[0], static_cast<int>(std::ceil(launches[0] * halves)), 1);
  std::vector<std::vector<double>> us(runs.size());
  for (int round = 0; round < std::max(rounds, 1); ++round) {
    for (std::size_t i = 0; i < runs.size(); ++i) {
      const std::size_t which = (i + static_cast<std::size_t>(round)) % runs.size();
      us[which].push_back(time_block_us(*device, runs[which], launches[which], launches[which]));
    }
  }
  return medians(std::move(us));
}

}  // namespace epifuse::cuda
