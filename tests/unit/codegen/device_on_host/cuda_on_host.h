// Runs device code on the host, a fiber for each CUDA thread: enough of CUDA for kernels that use
// shared memory, __syncthreads and shuffles. Include before any header of kernels/.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cstdint>
#include <functional>
#include <vector>

#include "fibers.h"

#define __device__
#define __forceinline__ inline
#define __shared__ static  // one block runs at a time

namespace epifuse::device_on_host {

struct Index {
  unsigned x = 0;
};

// The barriers and the exchange of shuffled values of one block.
struct Block {
  explicit Block(unsigned num_threads)
      : all(num_threads), warps(num_threads / 32, Barrier(32)), exchange(num_threads) {}
  Barrier all;
  std::vector<Barrier> warps;
  std::vector<float> exchange;
  int any = 0;  // of __syncthreads_or
};

inline Block* block = nullptr;
inline unsigned num_launches = 0;

}  // namespace epifuse::device_on_host

// Of the host's thread, and of the fiber that runs.
inline thread_local epifuse::device_on_host::Index threadIdx, blockIdx, gridDim;

namespace epifuse::device_on_host {

// What each CUDA thread has of its own, from the start of a launch on.
template <class T>
class PerThread {
 public:
  T& operator*() {
    Own& own = all_.at(threadIdx.x);
    if (own.launch != num_launches) own = {T(), num_launches};
    return own.value;
  }

 private:
  struct Own {
    T value{};
    unsigned launch = 0;
  };
  std::array<Own, 1024> all_;
};

}  // namespace epifuse::device_on_host

inline void __syncthreads() { epifuse::device_on_host::block->all.arrive_and_wait(); }
// Outside of a launch each thread is alone.
inline void __syncwarp() {
  epifuse::device_on_host::Block* const block = epifuse::device_on_host::block;
  if (block != nullptr) block->warps[threadIdx.x / 32].arrive_and_wait();
}
inline int __syncthreads_or(int x) {
  epifuse::device_on_host::Block& block = *epifuse::device_on_host::block;
  if (x != 0) block.any = 1;
  block.all.arrive_and_wait();
  const int any = block.any;
  block.all.arrive_and_wait();
  block.any = 0;
  block.all.arrive_and_wait();
  return any;
}
namespace epifuse::device_on_host {
// The value of thread `from` of the block, which is in the thread's own warp.
inline float exchange(float value, unsigned from) {
  Barrier& warp = block->warps[threadIdx.x / 32];
  block->exchange[threadIdx.x] = value;
  warp.arrive_and_wait();
  const float result = block->exchange[from];
  warp.arrive_and_wait();
  return result;
}
}  // namespace epifuse::device_on_host
inline float __shfl_xor_sync(unsigned, float value, int distance) {
  return epifuse::device_on_host::exchange(value, threadIdx.x ^ static_cast<unsigned>(distance));
}
inline float __shfl_sync(unsigned, float value, int lane, int width = 32) {
  const auto lanes = static_cast<unsigned>(width);
  return epifuse::device_on_host::exchange(
      value, threadIdx.x / lanes * lanes + static_cast<unsigned>(lane) % lanes);
}
using std::min;
inline float __int_as_float(int x) { return std::bit_cast<float>(x); }
inline float __uint_as_float(std::uint32_t x) { return std::bit_cast<float>(x); }
inline std::uint32_t __float_as_uint(float x) { return std::bit_cast<std::uint32_t>(x); }

inline std::uint32_t __funnelshift_r(std::uint32_t low, std::uint32_t high, unsigned count) {
  return static_cast<std::uint32_t>(((std::uint64_t{high} << 32) | low) >> (count & 31));
}

// Four of the eight bytes of both, by number: a nibble of `selector` each.
inline std::uint32_t __byte_perm(std::uint32_t low, std::uint32_t high, unsigned selector) {
  const std::uint64_t both = (std::uint64_t{high} << 32) | low;
  std::uint32_t out = 0;
  for (unsigned i = 0; i < 4; ++i) {
    out |= static_cast<std::uint32_t>(both >> (8 * (selector >> (4 * i) & 7)) & 0xff) << (8 * i);
  }
  return out;
}

struct alignas(8) uint2 {
  unsigned x, y;
};
struct alignas(16) uint4 {
  unsigned x, y, z, w;
};
struct alignas(8) float2 {
  float x, y;
};
struct alignas(16) float4 {
  float x, y, z, w;
};
inline float2 make_float2(float x, float y) { return {x, y}; }
inline uint2 make_uint2(unsigned x, unsigned y) { return {x, y}; }
inline uint4 make_uint4(unsigned x, unsigned y, unsigned z, unsigned w) { return {x, y, z, w}; }

namespace epifuse::device_on_host {

inline void launch(unsigned grid, unsigned num_threads, const std::function<void()>& kernel) {
  ++num_launches;
  gridDim.x = grid;
  for (blockIdx.x = 0; blockIdx.x < grid; ++blockIdx.x) {
    Block shared(num_threads);
    Fibers threads([](unsigned index) { threadIdx.x = index; });
    block = &shared;
    threads.run(num_threads, [&](unsigned) { kernel(); });
    block = nullptr;
  }
}

}  // namespace epifuse::device_on_host
