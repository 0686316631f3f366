// One compilation of a kernel among all processes that share a cache folder.
#pragma once

#include <chrono>
#include <filesystem>
#include <string>

#include "base/descriptor.h"

namespace epifuse::jit {

// Who compiles a kernel holds its lock meanwhile. The system takes a lock back when its holder
// ends, however it ends: none is ever stale. A lock says only that waiting pays; compiling without
// one is right, too.
class CompileLock {
 public:
  enum class State {
    held,
    busy,         // another holder has it
    unavailable,  // there is no folder, or its file system has no locks
  };
  // Asks once.
  CompileLock(const std::filesystem::path& folder, const std::string& key);
  // Asks until it is held or `wait` is over.
  CompileLock(const std::filesystem::path& folder, const std::string& key,
              std::chrono::milliseconds wait);
  State state() const { return state_; }

 private:
  Descriptor file_;
  State state_ = State::unavailable;
};

// Removes the file that locks are in. Who holds one keeps it, unseen by those who come later.
void remove_lock_file(const std::filesystem::path& folder);

}  // namespace epifuse::jit
