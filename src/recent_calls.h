// The last calls on tensors of the C interface, found again without taking the tensors apart.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <memory>
#include <shared_mutex>
#include <span>
#include <unordered_map>
#include <vector>

#include "codegen/kernel.h"
#include "epifuse/c.h"
#include "epifuse/program.h"

namespace epifuse {

// All that a call depends on, as numbers: types, addresses, sizes and strides.
class CallKey {
 public:
  CallKey(std::span<const EpifuseTensor> inputs, std::span<const EpifuseTensor> outputs);
  std::span<const std::uint64_t> numbers() const { return {numbers_.data(), size_}; }
  std::uint64_t hash() const { return hash_; }
  bool fits() const { return size_ <= numbers_.size(); }  // else the call is not remembered

 private:
  void add(std::uint64_t number);
  void add(const EpifuseTensor& tensor);
  std::array<std::uint64_t, 256> numbers_;  // only the first size_ are set
  std::size_t size_ = 0;
  std::uint64_t hash_ = 0;
};

struct RecentCall {
  const Program* program = nullptr;  // null: not known
  std::shared_ptr<const codegen::Bound> bound;
};

// Thread-safe.
class RecentCalls {
 public:
  RecentCall find(const CallKey& key) const;
  void add(const CallKey& key, RecentCall call);

 private:
  static constexpr std::size_t kMost = 64;  // as executables remember runs
  struct Entry {
    std::vector<std::uint64_t> numbers;
    RecentCall call;
  };
  mutable std::shared_mutex mutex_;
  std::unordered_map<std::uint64_t, Entry> entries_;  // by hash
  std::deque<std::uint64_t> order_;                   // of entries_, oldest first
};

}  // namespace epifuse
