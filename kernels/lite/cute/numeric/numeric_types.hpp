// Stand-in for cute/numeric/numeric_types.hpp: the few type helpers that the copy atoms name.
#pragma once

#include <cute/config.hpp>

namespace cute {

struct alignas(16) uint128_t {
  uint64_t low, high;
};

template <class A, class B>
inline constexpr bool is_same_v = false;
template <class A>
inline constexpr bool is_same_v<A, A> = true;

template <class T>
inline constexpr int sizeof_bits_v = 8 * sizeof(T);

template <int Bits>
struct UnsignedOf;
template <>
struct UnsignedOf<8> {
  using type = uint8_t;
};
template <>
struct UnsignedOf<16> {
  using type = uint16_t;
};
template <>
struct UnsignedOf<32> {
  using type = uint32_t;
};
template <>
struct UnsignedOf<64> {
  using type = uint64_t;
};
template <>
struct UnsignedOf<128> {
  using type = uint128_t;
};
template <int Bits>
using uint_bit_t = typename UnsignedOf<Bits>::type;

template <class T, int Size>
struct array {
  T elements[Size];
  __device__ T& operator[](int i) { return elements[i]; }
  __device__ const T& operator[](int i) const { return elements[i]; }
};

template <int Value>
struct Int {
  static constexpr int value = Value;
};

}  // namespace cute
