// What was found last, by key: bounded, the least recently used makes room.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <shared_mutex>
#include <unordered_map>
#include <utility>

namespace epifuse {

// At most `most` entries, by hash: of two keys of one hash the later stays. Thread-safe, and calls
// of `find` do not wait for each other.
template <class Entry>
class RecentTable {
 public:
  explicit RecentTable(std::size_t most) : most_(most) {}

  // The entry of this hash, where `is_it(entry)`; else null.
  template <class IsIt>
  std::shared_ptr<const Entry> find(std::uint64_t hash, const IsIt& is_it) const {
    const std::shared_lock lock(mutex_);
    const auto found = slots_.find(hash);
    if (found == slots_.end() || !is_it(*found->second.entry)) return nullptr;
    found->second.used.store(++clock_, std::memory_order_relaxed);
    return found->second.entry;
  }

  void add(std::uint64_t hash, std::shared_ptr<const Entry> entry) {
    const std::unique_lock lock(mutex_);
    if (slots_.size() >= most_ && !slots_.contains(hash)) {
      slots_.erase(std::min_element(slots_.begin(), slots_.end(), [](const auto& a, const auto& b) {
        return a.second.used.load() < b.second.used.load();
      }));
    }
    Slot& slot = slots_[hash];
    slot.entry = std::move(entry);
    slot.used = ++clock_;
  }

  std::size_t size() const {
    const std::shared_lock lock(mutex_);
    return slots_.size();
  }

 private:
  struct Slot {
    std::shared_ptr<const Entry> entry;
    mutable std::atomic<std::uint64_t> used = 0;  // when last, by clock_
  };
  const std::size_t most_;
  mutable std::shared_mutex mutex_;
  mutable std::atomic<std::uint64_t> clock_ = 0;
  std::unordered_map<std::uint64_t, Slot> slots_;
};

}  // namespace epifuse
