// Ends the process where something takes too long: a kernel that comes to no end cannot be stopped.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <string>
#include <thread>

namespace epifuse::testing {

class TimeLimit {
 public:
  // For each thing that begins; 0 s: none.
  explicit TimeLimit(std::chrono::seconds limit) : limit_(limit) {
    if (limit_.count() > 0) thread_ = std::jthread([this](std::stop_token stop) { watch(stop); });
  }

  // From now on this is what runs.
  void begin(const std::string& name) {
    const std::scoped_lock lock(mutex_);
    name_ = name;
    begun_ = Clock::now();
  }

 private:
  using Clock = std::chrono::steady_clock;

  void watch(const std::stop_token& stop) {
    std::unique_lock lock(mutex_);
    while (!stop.stop_requested()) {
      changed_.wait_until(lock, stop, begun_ + limit_, [] { return false; });
      if (name_.empty()) begun_ = Clock::now();
      if (stop.stop_requested() || Clock::now() < begun_ + limit_) continue;
      std::fprintf(stderr, "\n%s: no end after %lld s\n", name_.c_str(),
                   static_cast<long long>(limit_.count()));
      std::_Exit(3);  // destructors would wait for the device
    }
  }

  const std::chrono::seconds limit_;
  std::mutex mutex_;
  std::condition_variable_any changed_;
  std::string name_;
  Clock::time_point begun_ = Clock::now();
  std::jthread thread_;  // the last member: it ends before the others
};

}  // namespace epifuse::testing
