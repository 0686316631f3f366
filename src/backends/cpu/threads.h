// Runs units of work on the threads of OpenMP, the pool that oneDNN uses as well: two pools would
// fight for the same cores.
#pragma once

#include <cstdint>
#include <functional>

namespace epifuse::cpu {

// Threads that work started here may use: 1 inside of run_units, and in a forked child for the
// thread that forked, if OpenMP's threads worked for it before.
int threads_here();

// Threads worth using for this many nanoseconds of work on one core: 1 when it is too little to
// share.
int workers_for(double nanoseconds);

// Calls body(unit, worker) for each unit, workers taking the next free unit; returns when all are
// done. Inside, oneDNN runs on the calling thread alone. The first exception is rethrown.
void run_units(std::int64_t num_units, int num_workers,
               const std::function<void(std::int64_t unit, int worker)>& body);

// While it lives, oneDNN calls of this thread use `num_threads` threads.
class OnednnThreads {
 public:
  // At most threads_here().
  explicit OnednnThreads(int num_threads);
  ~OnednnThreads();
  OnednnThreads(const OnednnThreads&) = delete;
  OnednnThreads& operator=(const OnednnThreads&) = delete;

 private:
  int before_;
};

}  // namespace epifuse::cpu
