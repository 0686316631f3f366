// Vectors of 16 bytes whose elements are not where mma.sync takes them.
#pragma once

#include "kernels/sm90/few_rows_tile.cuh"

namespace epifuse::sm90 {

// Elements between a 16-byte boundary and an element of 2 bytes.
__device__ __forceinline__ int shift_of(const void* element) {
  return static_cast<int>(reinterpret_cast<unsigned long long>(element) / 2 % 8);
}

// Moves `kWords` words to the front whose first element is number `shift`, fewer than are in kMore
// words.
template <int kWords, int kMore>
__device__ __forceinline__ void realign(uint32_t (&words)[kWords + kMore], int shift) {
#pragma unroll
  for (int distance = kMore / 2; distance > 0; distance /= 2) {
#pragma unroll
    for (int i = 0; i < kWords + distance; ++i) {
      words[i] = (shift & 2 * distance) != 0 ? words[i + distance] : words[i];
    }
  }
  const unsigned selector = (shift & 1) != 0 ? 0x5432 : 0x3210;
#pragma unroll
  for (int i = 0; i < kWords; ++i) words[i] = __byte_perm(words[i], words[i + 1], selector);
}

// `kCount` vectors whose first element is number `shift`, 0 to 7, of one more.
template <int kCount>
__device__ __forceinline__ void realign(const uint4* from, int shift, uint4* to) {
  uint32_t words[4 * kCount + 4];
#pragma unroll
  for (int i = 0; i <= kCount; ++i) {
    words[4 * i] = from[i].x, words[4 * i + 1] = from[i].y;
    words[4 * i + 2] = from[i].z, words[4 * i + 3] = from[i].w;
  }
  realign<4 * kCount, 4>(words, shift);
#pragma unroll
  for (int i = 0; i < kCount; ++i) {
    to[i] = make_uint4(words[4 * i], words[4 * i + 1], words[4 * i + 2], words[4 * i + 3]);
  }
}

}  // namespace epifuse::sm90
