// One at a time among all threads and processes that share a cache folder.
#pragma once

#include <chrono>
#include <filesystem>
#include <string>

#include "base/descriptor.h"

namespace epifuse::jit {

// Who compiles a kernel or measures on a device holds the lock of its key, hexadecimal digits,
// meanwhile. The system takes a lock back when its holder ends, however it ends: none is ever
// stale. A lock says only that waiting pays; going on without one is right, too.
class KeyLock {
 public:
  enum class State {
    held,
    busy,         // another holder has it
    unavailable,  // there is no folder, or its file system has no locks
  };
  // Asks once.
  KeyLock(const std::filesystem::path& folder, const std::string& key);
  // Asks until it is held or `wait` is over, every `between` of it.
  KeyLock(const std::filesystem::path& folder, const std::string& key,
          std::chrono::milliseconds wait,
          std::chrono::milliseconds between = std::chrono::milliseconds(20));
  State state() const { return state_; }

 private:
  Descriptor file_;
  State state_ = State::unavailable;
};

// Removes the file that locks are in. Who holds one keeps it, unseen by those who come later.
void remove_lock_file(const std::filesystem::path& folder);

}  // namespace epifuse::jit
