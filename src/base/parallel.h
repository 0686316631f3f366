// Runs a function over 0..count-1 on a few threads.
#pragma once

#include <cstdint>
#include <functional>

namespace epifuse {
// EPIFUSE_THREADS, else the cores this process may use.
int num_threads();
// Calls body(i, thread) for each i, threads taking the next free i; returns when all are done.
// The first exception is rethrown.
void parallel_for(std::int64_t count, const std::function<void(std::int64_t, int)>& body);
}  // namespace epifuse
