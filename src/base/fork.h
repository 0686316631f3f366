// Tells a process that was forked: of the threads it knew, only the one that forked lives on.
#pragma once

namespace epifuse {
// Forks between the process that loaded this library and this one.
int num_forks();
}  // namespace epifuse
