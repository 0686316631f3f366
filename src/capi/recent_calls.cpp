// The last calls through the C interface, found again without taking their tensors apart.
#include "capi/recent_calls.h"

#include <algorithm>
#include <mutex>
#include <utility>

#include "backends/backend.h"
#include "base/hash.h"

namespace epifuse {
namespace {

std::uint64_t hash_of(CallNumbers numbers) {
  std::uint64_t hash = 0;
  for (const std::int64_t number : numbers) {
    hash = hash_next(hash, static_cast<std::uint64_t>(number));
  }
  return hash;
}

}  // namespace

RecentCall RecentCalls::find(CallNumbers numbers) const {
  const std::uint64_t hash = hash_of(numbers);
  const std::shared_lock lock(mutex_);
  const auto found = entries_.find(hash);
  if (found == entries_.end() || !std::ranges::equal(found->second.numbers, numbers)) return {};
  return found->second.call;
}

void RecentCalls::add(CallNumbers numbers, RecentCall call) {
  const std::uint64_t hash = hash_of(numbers);
  const std::unique_lock lock(mutex_);
  if (entries_.size() >= backends::kMostRecentCalls) entries_.clear();
  entries_.insert_or_assign(hash, Entry{{numbers.begin(), numbers.end()}, std::move(call)});
}

}  // namespace epifuse
