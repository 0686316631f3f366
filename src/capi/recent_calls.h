// The last calls through the C interface, found again without taking their tensors apart.
#pragma once

#include <cstdint>
#include <memory>
#include <shared_mutex>
#include <span>
#include <unordered_map>
#include <vector>

#include "codegen/bound.h"
#include "epifuse/program.h"

namespace epifuse {

// All that a call of one kernel depends on: of each tensor its address, its sizes and its strides.
using CallNumbers = std::span<const std::int64_t>;

struct RecentCall {
  const Program* program = nullptr;  // null: not known, or nothing to run
  std::shared_ptr<const codegen::Bound> bound;
};

// Thread-safe.
class RecentCalls {
 public:
  RecentCall find(CallNumbers numbers) const;
  void add(CallNumbers numbers, RecentCall call);

 private:
  struct Entry {
    std::vector<std::int64_t> numbers;
    RecentCall call;
  };
  mutable std::shared_mutex mutex_;
  std::unordered_map<std::uint64_t, Entry> entries_;  // by hash
};

}  // namespace epifuse
