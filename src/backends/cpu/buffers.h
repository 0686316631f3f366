// Aligned memory for temporaries and scratch, kept for the next run.
#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <mutex>

namespace epifuse::cpu {

constexpr std::size_t kAlignment = 64;  // of every buffer, in bytes

// Buffers that runs of one executable borrow; at most kMaxKeptBytes wait unused. Thread-safe.
class BufferPool {
 public:
  // A borrowed buffer: goes back to the pool when destroyed. Its contents are unspecified.
  class Buffer {
   public:
    Buffer() = default;
    Buffer(Buffer&& other) noexcept { *this = std::move(other); }
    Buffer& operator=(Buffer&& other) noexcept;
    ~Buffer() { release(); }
    std::byte* data() const { return memory_; }
    float* floats() const { return reinterpret_cast<float*>(memory_); }

   private:
    friend class BufferPool;
    void release();
    BufferPool* pool_ = nullptr;
    std::byte* memory_ = nullptr;
    std::size_t num_bytes_ = 0;
  };

  BufferPool() = default;
  ~BufferPool();
  BufferPool(const BufferPool&) = delete;
  BufferPool& operator=(const BufferPool&) = delete;

  Buffer borrow(std::size_t num_bytes);

 private:
  static constexpr std::size_t kMaxKeptBytes = std::size_t{256} << 20;
  void give_back(std::byte* memory, std::size_t num_bytes);

  std::mutex mutex_;
  std::multimap<std::size_t, std::byte*> kept_;  // by size
  std::size_t num_kept_bytes_ = 0;
};

}  // namespace epifuse::cpu
