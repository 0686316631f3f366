// The pool of aligned buffers.
#include "backends/cpu/buffers.h"

#include <algorithm>
#include <cstring>
#include <new>
#include <utility>

namespace epifuse::cpu {
namespace {

std::byte* allocate(std::size_t num_bytes) {
  return static_cast<std::byte*>(::operator new (num_bytes, std::align_val_t{kAlignment}));
}

void deallocate(std::byte* memory) { ::operator delete (memory, std::align_val_t{kAlignment}); }

}  // namespace

BufferPool::Buffer& BufferPool::Buffer::operator=(Buffer&& other) noexcept {
  if (this == &other) return *this;
  release();
  pool_ = std::exchange(other.pool_, nullptr);
  memory_ = std::exchange(other.memory_, nullptr);
  num_bytes_ = std::exchange(other.num_bytes_, 0);
  return *this;
}

void BufferPool::Buffer::release() {
  if (memory_ != nullptr) pool_->give_back(memory_, num_bytes_);
  memory_ = nullptr;
}

BufferPool::~BufferPool() {
  for (const auto& [num_bytes, memory] : kept_) deallocate(memory);
}

BufferPool::Buffer BufferPool::borrow(std::size_t num_bytes) {
  Buffer buffer;
  buffer.pool_ = this;
  num_bytes = std::max(num_bytes, kAlignment);
  {
    const std::lock_guard lock(mutex_);
    const auto found = kept_.lower_bound(num_bytes);
    // A much larger buffer is left for those who need it.
    if (found != kept_.end() && found->first / 2 <= num_bytes) {
      buffer.num_bytes_ = found->first;
      buffer.memory_ = found->second;
      num_kept_bytes_ -= found->first;
      kept_.erase(found);
      return buffer;
    }
  }
  buffer.memory_ = allocate(num_bytes);
  buffer.num_bytes_ = num_bytes;
  return buffer;
}

void BufferPool::give_back(std::byte* memory, std::size_t num_bytes) {
  {
    const std::lock_guard lock(mutex_);
    if (num_kept_bytes_ + num_bytes <= kMaxKeptBytes) {
      kept_.emplace(num_bytes, memory);
      num_kept_bytes_ += num_bytes;
      return;
    }
  }
  deallocate(memory);
}

}  // namespace epifuse::cpu
