// A pool of threads made at first use; every call works on its own job beside the pool's threads.
#include "base/parallel.h"

#include <sched.h>

#include <algorithm>
#include <atomic>
#include <charconv>
#include <condition_variable>
#include <deque>
#include <exception>
#include <memory>
#include <mutex>
#include <thread>

#include "base/fork.h"
#include "base/printable.h"
#include "base/settings.h"
#include "epifuse/error.h"

namespace epifuse {
namespace {

constexpr int kMaxThreads = 1024;

// One call of parallel_for, on the stack of its caller. All but `next` is guarded by the pool's
// mutex.
struct Job {
  const std::function<void(std::int64_t, int)>& body;
  const std::int64_t count;
  const int max_helpers;
  std::atomic<std::int64_t> next{0};
  int num_joined = 0;   // helpers that ever took part
  int num_working = 0;  // helpers inside now
  std::exception_ptr error;
  std::condition_variable all_left;
};

class Pool {
 public:
  int made_after_forks() const { return made_after_forks_; }

  void run(Job& job) {
    {
      const std::lock_guard lock(mutex_);
      for (; num_workers_ < job.max_helpers; ++num_workers_) {
        std::thread([this] { serve(); }).detach();
      }
      open_.push_back(&job);
    }
    for (int i = 0; i < job.max_helpers; ++i) wake_.notify_one();
    take_all(job, 0);
    std::unique_lock lock(mutex_);
    std::erase(open_, &job);
    // Only helpers that joined are waited for: a job never depends on a free thread.
    job.all_left.wait(lock, [&job] { return job.num_working == 0; });
    if (job.error) std::rethrow_exception(job.error);
  }

 private:
  void serve() {
    std::unique_lock lock(mutex_);
    while (true) {
      wake_.wait(lock, [this] { return !open_.empty(); });
      Job& job = *open_.front();
      const int thread = ++job.num_joined;
      if (job.num_joined == job.max_helpers) open_.pop_front();
      ++job.num_working;
      lock.unlock();
      take_all(job, thread);
      lock.lock();
      // No new helper need come: all the indices are taken.
      std::erase(open_, &job);
      if (--job.num_working == 0) job.all_left.notify_one();
    }
  }

  void take_all(Job& job, int thread) {
    for (std::int64_t i = job.next++; i < job.count; i = job.next++) {
      try {
        job.body(i, thread);
      } catch (...) {
        const std::lock_guard lock(mutex_);
        if (!job.error) job.error = std::current_exception();
        job.next = job.count;
      }
    }
  }

  const int made_after_forks_ = num_forks();
  std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<Job*> open_;  // jobs that still take helpers
  int num_workers_ = 0;
};

// Never destroyed: other threads may still run jobs at exit. A forked child gets its own pool, for
// it has none of the threads, and one of them may have held the lock.
Pool& shared_pool() {
  static std::atomic<Pool*> current{nullptr};
  Pool* pool = current.load();
  while (pool == nullptr || pool->made_after_forks() != num_forks()) {
    auto fresh = std::make_unique<Pool>();
    if (current.compare_exchange_strong(pool, fresh.get())) return *fresh.release();
  }
  return *pool;
}

int num_usable_cores() {
  cpu_set_t cores;
  CPU_ZERO(&cores);
  if (sched_getaffinity(0, sizeof(cores), &cores) == 0) return CPU_COUNT(&cores);
  return static_cast<int>(std::thread::hardware_concurrency());
}

}  // namespace

int num_threads() {
  const std::string text = Settings::read().num_threads;
  if (text.empty()) return std::clamp(num_usable_cores(), 1, kMaxThreads);
  int count = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), count);
  if (error != std::errc() || end != text.data() + text.size() || count < 1 ||
      count > kMaxThreads) {
    throw ArgumentError("EPIFUSE_THREADS expects a number from 1 to 1024, got \"" +
                        printable(text) + "\"");
  }
  return count;
}

void parallel_for(std::int64_t count, const std::function<void(std::int64_t, int)>& body) {
  const std::int64_t num_helpers = std::min<std::int64_t>(num_threads(), count) - 1;
  if (num_helpers <= 0) {
    for (std::int64_t i = 0; i < count; ++i) body(i, 0);
    return;
  }
  Job job{body, count, static_cast<int>(num_helpers)};
  shared_pool().run(job);
}

}  // namespace epifuse
