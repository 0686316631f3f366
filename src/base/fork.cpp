// Counts forks by a handler that runs in each child.
#include "base/fork.h"

#include <pthread.h>

#include <atomic>

namespace epifuse {
namespace {

// The one global that changes: a fork happens to the whole process.
std::atomic<int> count_of_forks{0};

// Made when the library is loaded, since a fork before the first question counts as well.
const bool is_counting = pthread_atfork(nullptr, nullptr, [] { ++count_of_forks; }) == 0;

}  // namespace

int num_forks() { return is_counting ? count_of_forks.load() : 0; }

}  // namespace epifuse
