// How a few consecutive elements of a row move between memory and floats.
#pragma once

#include "kernels/sm80/primitives.cuh"

namespace epifuse::sm80 {

constexpr int kVector = 4;  // columns of a thread

// The raw bits of as many elements, in whole words.
template <class Element>
constexpr int kVectorWords = sizeof(typename Element::Storage) * kVector / 4;
template <class List>
constexpr int vector_words() {
  int words = 0;
  for (int i = 0; i < List::kCount; ++i) words += List::kSizes[i] * kVector / 4;
  return words;
}

// Elements `stride` apart, of which `count` are there: at once where they are all and side by side.
template <class Element>
__device__ __forceinline__ void load_vector(const typename Element::Storage* from, bool is_vector,
                                            long long stride, int count, uint32_t* words) {
  constexpr int kWords = kVectorWords<Element>;
  if (is_vector && count >= kVector) {
    if constexpr (kWords == 4) {
      const uint4 x = *reinterpret_cast<const uint4*>(from);
      words[0] = x.x;
      words[1] = x.y;
      words[2] = x.z;
      words[3] = x.w;
    } else if constexpr (kWords == 2) {
      const uint2 x = *reinterpret_cast<const uint2*>(from);
      words[0] = x.x;
      words[1] = x.y;
    } else {
      words[0] = *reinterpret_cast<const uint32_t*>(from);
    }
    return;
  }
  constexpr int kEach = kVector / kWords, kBits = 32 / kEach;  // elements of a word
#pragma unroll
  for (int w = 0; w < kWords; ++w) words[w] = 0;
#pragma unroll
  for (int e = 0; e < kVector; ++e) {
    if (e >= count) continue;
    if constexpr (kEach == 1) {
      words[e] = __float_as_uint(from[e * stride]);
    } else {
      words[e / kEach] |= static_cast<uint32_t>(from[e * stride]) << (e % kEach * kBits);
    }
  }
}

template <class Element>
__device__ __forceinline__ float element_of(const uint32_t* words, int e) {
  constexpr int kEach = kVector / kVectorWords<Element>, kBits = 32 / kEach;
  if constexpr (kEach == 1) {
    return __uint_as_float(words[e]);
  } else {
    using Storage = typename Element::Storage;
    return Element::load(static_cast<Storage>(words[e / kEach] >> (e % kEach * kBits)));
  }
}

// Rounds floats to the element type and writes them.
template <class Element>
__device__ __forceinline__ void store_vector(typename Element::Storage* to, bool is_vector,
                                             long long stride, int count,
                                             const float (&x)[kVector]) {
  if (!is_vector || count < kVector) {
#pragma unroll
    for (int e = 0; e < kVector; ++e) {
      if (e < count) to[e * stride] = Element::store(x[e]);
    }
    return;
  }
  constexpr int kWords = kVectorWords<Element>;
  if constexpr (kWords == 4) {
    *reinterpret_cast<uint4*>(to) = make_uint4(__float_as_uint(x[0]), __float_as_uint(x[1]),
                                               __float_as_uint(x[2]), __float_as_uint(x[3]));
  } else if constexpr (kWords == 2) {
    *reinterpret_cast<uint2*>(to) =
        make_uint2(pack<Element>(x[0], x[1]), pack<Element>(x[2], x[3]));
  } else {
    *reinterpret_cast<uint32_t*>(to) =
        pack_bytes<Element>(x[0], x[1]) | pack_bytes<Element>(x[2], x[3]) << 16;
  }
}

}  // namespace epifuse::sm80
