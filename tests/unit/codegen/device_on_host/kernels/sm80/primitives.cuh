// Stands in for kernels/sm80/primitives.cuh: its instructions, for threads that are CUDA threads.
// Of a warp, each gives what it has to the others before all go on.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <cstring>
#include <type_traits>
#include <vector>

#include "kernels/abi.h"
#include "kernels/common/element.cuh"

namespace epifuse::device_on_host {

alignas(1024) inline unsigned char shared_memory[232448];  // one block runs at a time
// Whether copies land only when they are waited for; else at once.
inline bool copies_land_late = true;

struct Copy {
  std::uint32_t shared;
  const unsigned char* global;
  int bytes, whole_bytes;
  void land() const {
    std::memset(shared_memory + shared, 0, static_cast<std::size_t>(whole_bytes));
    if (bytes > 0) std::memcpy(shared_memory + shared, global, static_cast<std::size_t>(bytes));
  }
};
inline PerThread<std::vector<std::vector<Copy>>> groups;
inline PerThread<std::vector<Copy>> open_group;

// What the threads of a warp have given; by turns, so that one barrier does for both ways.
using Words = std::array<std::uint32_t, 6>;
inline Words given[2][1024];
inline PerThread<unsigned> turns;

inline const Words* exchange(const Words& words) {
  unsigned& turn = *turns;
  turn ^= 1;
  given[turn][threadIdx.x] = words;
  __syncwarp();
  return given[turn] + threadIdx.x / 32 * 32;
}

}  // namespace epifuse::device_on_host

namespace epifuse::sm80 {

using std::max, std::min;

inline unsigned char* shared_memory() { return device_on_host::shared_memory; }
inline std::uint32_t shared_address() { return 0; }

template <int kBytes>
void copy_async(std::uint32_t shared, const unsigned char* global, int bytes) {
  const device_on_host::Copy copy{shared, global, bytes, kBytes};
  if (shared % kBytes != 0) std::abort();
  if (bytes > 0 && reinterpret_cast<std::uintptr_t>(global) % kBytes != 0) std::abort();
  if (device_on_host::copies_land_late) {
    (*device_on_host::open_group).push_back(copy);
  } else {
    copy.land();
  }
}
inline void commit_copies() {
  std::vector<device_on_host::Copy>& open = *device_on_host::open_group;
  (*device_on_host::groups).push_back(std::move(open));
  open.clear();
}
template <int kPending>
void wait_for_copies() {
  auto& groups = *device_on_host::groups;
  while (groups.size() > kPending) {
    for (const device_on_host::Copy& copy : groups.front()) copy.land();
    groups.erase(groups.begin());
  }
}

inline void store_unit(std::uint32_t shared, const std::uint32_t (&words)[4]) {
  std::memcpy(shared_memory() + shared, words, sizeof words);
}
inline std::uint32_t load_word(std::uint32_t shared) {
  std::uint32_t word;
  std::memcpy(&word, shared_memory() + shared, sizeof word);
  return word;
}
inline void load_two_words(std::uint32_t shared, std::uint32_t& first, std::uint32_t& second) {
  if (shared % 8 != 0) std::abort();
  first = load_word(shared), second = load_word(shared + 4);
}

inline void load_matrices(std::uint32_t shared, std::uint32_t (&words)[4]) {
  const device_on_host::Words* of = device_on_host::exchange({shared});
  const unsigned lane = threadIdx.x % 32;
  for (unsigned w = 0; w < 4; ++w) words[w] = load_word(of[w * 8 + lane / 4][0] + lane % 4 * 4);
}
inline void load_matrices_transposed(std::uint32_t shared, std::uint32_t (&words)[4]) {
  const device_on_host::Words* of = device_on_host::exchange({shared});
  const unsigned lane = threadIdx.x % 32;
  for (unsigned w = 0; w < 4; ++w) {
    std::uint16_t halves[2];
    for (unsigned h = 0; h < 2; ++h) {
      const std::uint32_t row = of[w * 8 + lane % 4 * 2 + h][0];
      std::memcpy(&halves[h], shared_memory() + row + lane / 4 * 2, sizeof halves[h]);
    }
    words[w] = halves[0] | static_cast<std::uint32_t>(halves[1]) << 16;
  }
}

// Bytes 0 and 2 of two words, or bytes 1 and 3.
inline std::uint32_t even_bytes(std::uint32_t x, std::uint32_t y) {
  const auto half = [](std::uint32_t word) { return (word & 0xff) | (word >> 8 & 0xff00); };
  return half(x) | half(y) << 16;
}
inline std::uint32_t odd_bytes(std::uint32_t x, std::uint32_t y) {
  return even_bytes(x >> 8, y >> 8);
}

// cvt.rna.tf32.f32: to the nearest of 10 mantissa bits, halves away from zero.
template <class Element>
std::uint32_t multiplied(std::uint32_t word) {
  constexpr std::uint32_t kExponent = 0x7f800000, kLost = (1u << 13) - 1;
  if (sizeof(typename Element::Storage) < 4 || (word & kExponent) == kExponent) return word;
  return (word + kLost / 2 + 1) & ~kLost;
}

// Of words of f32 tensor cores see 10 mantissa bits.
template <class Element>
std::uint32_t seen(std::uint32_t word) {
  return sizeof(typename Element::Storage) == 4 ? word & ~((1u << 13) - 1) : word;
}

// The k-th element of a row of 8 x 32 bytes in two words of each of 4 lanes.
template <class Element>
float element_at(const device_on_host::Words* of, unsigned row, unsigned k, unsigned first,
                 unsigned second) {
  constexpr unsigned kEach = 4 / sizeof(typename Element::Storage), kHalf = 4 * kEach;
  const std::uint32_t word =
      seen<Element>(of[row * 4 + k % kHalf / kEach][k < kHalf ? first : second]);
  typename Element::Storage x;
  std::memcpy(&x, reinterpret_cast<const char*>(&word) + k % kEach * sizeof x, sizeof x);
  return Element::load(x);
}

template <class A, class B>
struct Multiply {
  static constexpr bool kKeepsFewBits = sizeof(typename A::Storage) == 1;
  template <class Sum>
  static void add(Sum (&sums)[4], const std::uint32_t (&a)[4], const std::uint32_t* b) {
    using Product = std::conditional_t<std::is_same_v<Sum, float>, float, std::int32_t>;
    const device_on_host::Words* of =
        device_on_host::exchange({a[0], a[1], a[2], a[3], b[0], b[1]});
    const unsigned lane = threadIdx.x % 32;
    for (unsigned i = 0; i < 4; ++i) {
      const unsigned lower = i / 2, column = lane % 4 * 2 + i % 2;
      for (unsigned k = 0; k < 32 / sizeof(typename A::Storage); ++k) {
        sums[i] += static_cast<Product>(element_at<A>(of, lane / 4, k, lower, lower + 2) *
                                        element_at<B>(of, column, k, 4, 5));
      }
    }
  }
};

inline void keep(std::uint32_t&) {}
inline int arrive(int* arrivals) { return std::atomic_ref<int>(*arrivals)++; }
inline float4 load_of_others(const float4* from) { return *from; }

inline void prefetch(const void*) {}

}  // namespace epifuse::sm80
