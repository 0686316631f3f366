// The last calls on tensors of the C interface, found again without taking the tensors apart.
#include "recent_calls.h"

#include <algorithm>
#include <mutex>
#include <utility>

namespace epifuse {

CallKey::CallKey(std::span<const EpifuseTensor> inputs, std::span<const EpifuseTensor> outputs) {
  for (const EpifuseTensor& tensor : inputs) add(tensor);
  for (const EpifuseTensor& tensor : outputs) add(tensor);
}

void CallKey::add(const EpifuseTensor& tensor) {
  add(static_cast<std::uint64_t>(tensor.dtype) << 32 | static_cast<std::uint32_t>(tensor.rank));
  add(reinterpret_cast<std::uintptr_t>(tensor.data));
  for (std::int32_t d = 0; d < tensor.rank; ++d) {
    add(static_cast<std::uint64_t>(tensor.sizes[d]));
    add(static_cast<std::uint64_t>(tensor.strides[d]));
  }
}

void CallKey::add(std::uint64_t number) {
  constexpr std::uint64_t kOdd = 0x9e3779b97f4a7c15;  // 2^64 over the golden ratio
  if (size_ < numbers_.size()) numbers_[size_] = number;
  ++size_;
  hash_ = (hash_ ^ number) * kOdd;
  hash_ ^= hash_ >> 32;
}

RecentCall RecentCalls::find(const CallKey& key) const {
  if (!key.fits()) return {};
  const std::shared_lock lock(mutex_);
  const auto found = entries_.find(key.hash());
  if (found == entries_.end() || !std::ranges::equal(found->second.numbers, key.numbers())) {
    return {};
  }
  return found->second.call;
}

void RecentCalls::add(const CallKey& key, RecentCall call) {
  if (!key.fits()) return;
  const std::unique_lock lock(mutex_);
  Entry entry{{key.numbers().begin(), key.numbers().end()}, std::move(call)};
  if (!entries_.insert_or_assign(key.hash(), std::move(entry)).second) return;
  order_.push_back(key.hash());
  if (order_.size() <= kMost) return;
  entries_.erase(order_.front());
  order_.pop_front();
}

}  // namespace epifuse
