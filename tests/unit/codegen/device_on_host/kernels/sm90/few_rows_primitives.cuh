// Stands in for kernels/sm90/few_rows_primitives.cuh: loads that check addresses, mma.sync by its
// definition, and one CTA that is all of its cluster.
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/common/element.cuh"

namespace epifuse::device_on_host {

// What kernels may read, for a test to fill in.
struct Readable {
  const char* begin;
  const char* end;
};
inline std::vector<Readable> readable;
inline std::atomic<int> num_bad_loads = 0;

template <class Vector>
Vector checked_load(const void* from, bool is_there) {
  Vector x{};
  if (!is_there) return x;
  const char* const first = static_cast<const char*>(from);
  const bool is_aligned = reinterpret_cast<std::uintptr_t>(from) % sizeof x == 0;
  const bool is_readable = std::ranges::any_of(readable, [&](const Readable& all) {
    return first >= all.begin && first + sizeof x <= all.end;
  });
  if (is_aligned && is_readable) {
    std::memcpy(&x, from, sizeof x);
  } else {
    ++num_bad_loads;
  }
  return x;
}

}  // namespace epifuse::device_on_host

namespace epifuse::sm90 {

using std::min;  // rather than that of the public API, on graph values

inline float* shared_floats() {
  static float shared[58112];  // one block runs at a time
  return shared;
}

inline void fetch_to_l2(const void* from) {
  device_on_host::checked_load<unsigned short>(from, true);
}

inline uint4 load_once(const void* from, bool is_there = true) {
  return device_on_host::checked_load<uint4>(from, is_there);
}
inline uint4 load_16_bytes(const void* from, bool is_there = true) {
  return device_on_host::checked_load<uint4>(from, is_there);
}
inline uint2 load_8_bytes_once(const void* from, bool is_there) {
  return device_on_host::checked_load<uint2>(from, is_there);
}
inline uint2 load_8_bytes(const void* from, bool is_there) {
  return device_on_host::checked_load<uint2>(from, is_there);
}
inline uint32_t load_4_bytes(const void* from, bool is_there) {
  return device_on_host::checked_load<uint32_t>(from, is_there);
}
inline unsigned short load_2_bytes(const void* from, bool is_there) {
  return device_on_host::checked_load<unsigned short>(from, is_there);
}

// Fragments as the PTX ISA has them, of m16n8k16: of lane 4 g + t.
template <class Element>
struct Mma {
  static void run(float (&d)[4], const std::uint32_t (&a)[4], std::uint32_t b0, std::uint32_t b1) {
    struct Fragments {
      std::uint32_t a[4], b[2];
    };
    static Fragments all[1024];
    device_on_host::Barrier& warp = device_on_host::block->warps[threadIdx.x / 32];
    const unsigned lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
    Fragments* const of_warp = all + (threadIdx.x - lane);
    of_warp[lane] = {{a[0], a[1], a[2], a[3]}, {b0, b1}};
    warp.arrive_and_wait();
    const auto half = [](std::uint32_t pair, unsigned k) {
      return Element::load(static_cast<std::uint16_t>(k % 2 == 0 ? pair & 0xffff : pair >> 16));
    };
    for (unsigned i = 0; i < 4; ++i) {
      const unsigned row = g + i / 2 * 8, column = 2 * t + i % 2;
      for (unsigned k = 0; k < 16; ++k) {
        const Fragments& of_a = of_warp[row % 8 * 4 + k % 8 / 2];
        const Fragments& of_b = of_warp[column * 4 + k % 8 / 2];
        d[i] += half(of_a.a[row / 8 + k / 8 * 2], k) * half(of_b.b[k / 8], k);
      }
    }
    warp.arrive_and_wait();
  }
};

inline int rank_in_cluster() { return 0; }
inline void sync_cluster() {}
inline float load_float_of_cta(const float* local, int) { return *local; }

}  // namespace epifuse::sm90
