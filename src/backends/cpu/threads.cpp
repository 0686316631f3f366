// Work sharing over OpenMP threads.
#include "backends/cpu/threads.h"

#include <omp.h>

#include <algorithm>
#include <atomic>
#include <exception>

#include "base/fork.h"
#include "base/parallel.h"

namespace epifuse::cpu {

namespace {

constexpr int kNever = -1;

// num_forks() when this thread last had OpenMP's threads work for it.
int& forks_before_team() {
  thread_local int forks = kNever;
  return forks;
}

// In a forked child OpenMP's threads are gone, but the thread that had them work for it, the one
// that forked, still waits for them. Threads that the child starts get new ones.
bool has_lost_team() { return forks_before_team() != kNever && forks_before_team() != num_forks(); }

}  // namespace

int threads_here() {
  if (omp_in_parallel() != 0 || has_lost_team()) return 1;
  // Another user of OpenMP, such as PyTorch in a DataLoader's worker, may know of threads lost.
  if (num_forks() > 0 && omp_get_max_threads() == 1) return 1;
  return num_threads();
}

int workers_for(double nanoseconds) {
  constexpr double kWorthSharing = 20e3;  // waking the pool costs a few microseconds
  if (nanoseconds < 2 * kWorthSharing) return 1;
  return std::min(threads_here(), static_cast<int>(std::min(nanoseconds / kWorthSharing, 1e6)));
}

OnednnThreads::OnednnThreads(int num_threads) : before_(omp_get_max_threads()) {
  if (num_threads != before_) omp_set_num_threads(num_threads);
  if (num_threads > 1) forks_before_team() = num_forks();
}

OnednnThreads::~OnednnThreads() {
  if (omp_get_max_threads() != before_) omp_set_num_threads(before_);
}

void run_units(std::int64_t num_units, int num_workers,
               const std::function<void(std::int64_t unit, int worker)>& body) {
  num_workers = static_cast<int>(std::min<std::int64_t>(num_workers, num_units));
  if (num_workers <= 1) {
    const OnednnThreads alone(1);
    for (std::int64_t unit = 0; unit < num_units; ++unit) body(unit, 0);
    return;
  }
  forks_before_team() = num_forks();
  std::atomic<std::int64_t> next{0};
  std::exception_ptr error;
  std::atomic_flag has_error;
#pragma omp parallel num_threads(num_workers)
  {
    const OnednnThreads alone(1);
    const int worker = omp_get_thread_num();
    try {
      for (std::int64_t unit = next++; unit < num_units; unit = next++) body(unit, worker);
    } catch (...) {
      if (!has_error.test_and_set()) error = std::current_exception();
      next = num_units;
    }
  }
  if (error) std::rethrow_exception(error);
}

}  // namespace epifuse::cpu
