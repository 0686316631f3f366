// Stands in for kernels/sm90/primitives.cuh: what walking tiles, copying rows and reading pairs
// need.
#pragma once

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <cstring>

#include "kernels/abi.h"
#include "kernels/common/overlap.cuh"
#include "kernels/sm90/chunk.cuh"

namespace epifuse::device_on_host {
inline thread_local unsigned cluster_rank = 0;
alignas(1024) inline unsigned char shared_memory[232448];  // one block runs at a time
}  // namespace epifuse::device_on_host

namespace cutlass::arch {
inline void fence_barrier_init() {}
}  // namespace cutlass::arch

namespace cute {
inline void cluster_arrive_relaxed() {}
inline void cluster_wait() {}
inline unsigned block_rank_in_cluster() { return epifuse::device_on_host::cluster_rank; }
inline std::uint32_t cast_smem_ptr_to_uint(const void* shared) {
  return static_cast<std::uint32_t>(static_cast<const unsigned char*>(shared) -
                                    epifuse::device_on_host::shared_memory);
}
}  // namespace cute

namespace epifuse::sm90 {

using std::max, std::min;  // rather than those of the public API, on graph values

inline int fast_divide(int x, float y) {
  return static_cast<int>(std::floor((static_cast<float>(x) + 0.5f) / y));
}

inline unsigned char* shared_memory() { return device_on_host::shared_memory; }

inline int anew(int x) { return x; }

struct NamedBarrier {  // of all threads of a test
  static void sync(unsigned, unsigned) { __syncthreads(); }
};

// What moves words of staging is of a whole warp: not used on the host.
void load_matrices(std::uint32_t row, std::uint32_t* x);
void store_matrices(std::uint32_t row, const std::uint32_t* x);
void load_pair(std::uint32_t at, std::uint32_t* x);
void store_pair(std::uint32_t at, const std::uint32_t* x);
inline void load_four(std::uint32_t at, std::uint32_t* x) {
  if (at % (4 * sizeof *x) != 0) std::abort();
  std::memcpy(x, device_on_host::shared_memory + at, 4 * sizeof *x);
}
inline void store_four(std::uint32_t at, const std::uint32_t* x) {
  if (at % (4 * sizeof *x) != 0) std::abort();
  std::memcpy(device_on_host::shared_memory + at, x, 4 * sizeof *x);
}
inline void store_if(char* to, const std::uint32_t* x, int low, int high) {
  if (low >= high) return;
  if (reinterpret_cast<std::uintptr_t>(to) % (4 * sizeof *x) != 0) std::abort();
  std::memcpy(to, x, 4 * sizeof *x);
}
inline std::uint32_t shift_right(std::uint32_t low, std::uint32_t high, int bits) {
  return static_cast<std::uint32_t>((std::uint64_t{high} << 32 | low) >> bits);
}
inline void store_word(std::uint32_t at, std::uint32_t x) {
  std::memcpy(device_on_host::shared_memory + at, &x, sizeof x);
}

// Words of global memory if low < high; else zeros.
template <class Word>
void load_if(const char* at, int low, int high, Word& x) {
  x = 0;
  if (low >= high) return;
  if (reinterpret_cast<std::uintptr_t>(at) % sizeof x != 0) std::abort();
  std::memcpy(&x, at, sizeof x);
}
inline void load_if(const char* at, int low, int high, std::uint32_t& x, std::uint32_t& y) {
  if (low < high && reinterpret_cast<std::uintptr_t>(at) % (2 * sizeof x) != 0) std::abort();
  load_if(at, low, high, x);
  load_if(at + sizeof x, low, high, y);
}

// From shared to global memory, by addresses that are multiples of its bytes.
template <int kBytes>
struct CopyUnit {
  unsigned char bytes[kBytes];
  void load(std::uint32_t at) {
    if (at % kBytes != 0) std::abort();
    std::memcpy(bytes, device_on_host::shared_memory + at, kBytes);
  }
  void store(char* to, int low, int high) const {
    if (low >= high) return;
    if (reinterpret_cast<std::uintptr_t>(to) % kBytes != 0) std::abort();
    std::memcpy(to, bytes, kBytes);
  }
};

// An mbarrier: phases 0, 1, 0, .. end with the last of so many arrivals each.
class EmptyBarrier {
 public:
  void init(std::uint16_t count) { state_ = std::uint64_t{count} << 32 | count; }
  void arrive() {
    std::uint64_t before = state_;
    while (!state_.compare_exchange_weak(before, after(before))) {
    }
  }
  // Until the phase of that parity has ended.
  void wait(std::uint32_t phase) {
    while ((state_ >> 63) == phase) device_on_host::yield();
  }

 private:
  // Bit 63: the phase; above bit 32 the count; below it how many are still to arrive.
  static std::uint64_t after(std::uint64_t state) {
    constexpr std::uint64_t kLow = 0xffffffff, kPhase = std::uint64_t{1} << 63;
    if ((state & kLow) != 1) return state - 1;
    const std::uint64_t count = state >> 32 & 0x7fffffff;
    return ((state & ~kLow) ^ kPhase) | count;
  }
  std::atomic<std::uint64_t> state_;
};
static_assert(sizeof(EmptyBarrier) == 8);
using FullBarrier = EmptyBarrier;

// Copies land at once.
inline void copy_scale(float* shared, const float* global, bool exists) {
  *shared = exists ? *global : 0;
}
inline void arrive_after_copies(FullBarrier& barrier) { barrier.arrive(); }

}  // namespace epifuse::sm90
