// How a warp's 16 rows of a chunk move between registers and staging in shared memory, and how
// single values come from memory.
//
// Staging is made of slots (kernels/sm90/chunk.cuh). They are named by the warp's first row in
// them; transposed ones, whose rows are columns of the chunk, by its first element of each.
#pragma once

#include "kernels/common/element.cuh"
#include "kernels/sm90/chunk.cuh"
#include "kernels/sm90/primitives.cuh"

namespace epifuse::sm90 {

// Columns are handled 16 at a time: a group is 4 words a lane of a 16-bit type, 8 of a 32-bit one,
// and the first 2 of 4 of an 8-bit one.
constexpr int kGroupColumns = 16;
constexpr int kGroups = kChunkColumns / kGroupColumns;

template <class List>
constexpr int group_words(unsigned skipped = 0) {
  return slots<List>(skipped) * 4;
}

// The registers of a lane have 16-bit elements in pairs and 32-bit ones alone, 8-bit results four
// at a time. Bools and 8-bit operands are moved by hand (kNonTmaLoads, kNonTmaStores): what would
// stage them does not run.
template <class Element>
constexpr bool is_wide() {
  constexpr int kBytes = sizeof(typename Element::Storage);
  static_assert(kBytes <= 4, "elements of 8, 16 or 32 bits go through staging");
  return kBytes == 4;
}
template <class Element>
constexpr bool is_byte() {
  return sizeof(typename Element::Storage) == 1;
}

// Element of a loaded group: 8-column block q (0 or 1), row half, e-th column of the lane's pair.
template <class Element>
__device__ __forceinline__ float read_word(const uint32_t* words, int q, int half, int e) {
  if constexpr (is_wide<Element>()) {
    return __uint_as_float(words[q * 4 + half * 2 + e]);
  } else {
    const float2 pair = unpack<Element>(words[q * 2 + half]);
    return e == 0 ? pair.x : pair.y;
  }
}

template <class Element>
__device__ __forceinline__ void write_pair(uint32_t* words, int q, int half, float x, float y) {
  if constexpr (is_wide<Element>()) {
    words[q * 4 + half * 2] = __float_as_uint(x);
    words[q * 4 + half * 2 + 1] = __float_as_uint(y);
  } else if constexpr (is_byte<Element>()) {  // of a row, both blocks' pairs in one word
    const uint32_t pair = pack_bytes<Element>(x, y);
    words[half] = q == 0 ? pair : words[half] | pair << 16;
  } else {
    words[q * 2 + half] = pack<Element>(x, y);
  }
}

// Where in its slot a lane's words of the first group are. Those of the others are at this address
// with some of its bits flipped: a slot's rows start at multiples of 128 bytes.
template <class Element>
__device__ __forceinline__ uint32_t place_of(const unsigned char* slot, int lane) {
  constexpr bool kIsWide = is_wide<Element>();
  const int row = kIsWide ? lane >> 2 : lane & 15;
  const int piece = kIsWide ? (lane & 3) >> 1 : lane >> 4;
  return cute::cast_smem_ptr_to_uint(slot) + row * 128 + ((piece ^ (row & 7)) << 4) +
         (kIsWide ? (lane & 1) * 8 : 0);
}

// Of a 16-bit type in transposed slots, where the other groups' are 16 rows apart.
__device__ __forceinline__ uint32_t transposed_place(const unsigned char* slot, int lane) {
  const int column = (lane >> 4) * 8 + (lane & 7), half = lane >> 3 & 1;
  const uint32_t row = cute::cast_smem_ptr_to_uint(slot) + column * 128;
  return row ^ ((half ^ (column & 7)) << 4);
}

// Bytes between warps in a slot.
template <bool kTransposed>
constexpr int kBytesOfWarp = kTransposed ? kWarpRows * 2 : kWarpRows * 128;

// Of a 16-bit type: where a lane's row of group g is.
template <class Element, bool kTransposed>
__device__ __forceinline__ uint32_t matrix_place(const unsigned char* slot, int g, int lane) {
  if constexpr (kTransposed) return transposed_place(slot, lane) + g * (kGroupColumns * 128);
  return place_of<Element>(slot, lane) ^ (g << 5);
}

// Of a 32-bit type: the i-th pair of group g.
__device__ __forceinline__ uint32_t wide_place(uint32_t place, int g, int i) {
  return (place ^ ((g % 2 * 4 + (i >> 1) * 2) << 4)) + (i & 1) * 1024 + g / 2 * kSlotBytes;
}

// Group g of a chunk from its slots to registers, in the layout of the accumulator.
template <class Element, bool kTransposed>
__device__ __forceinline__ void load_group(const unsigned char* slot, int g, uint32_t* words,
                                           int lane) {
  if constexpr (is_wide<Element>()) {
    static_assert(!kTransposed);
    const uint32_t place = place_of<Element>(slot, lane);
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      load_pair(wide_place(place, g, i), words + i * 2);
    }
  } else {
    load_matrices<kTransposed>(matrix_place<Element, kTransposed>(slot, g, lane), words);
  }
}

// Of an 8-bit type: 4 columns of two rows. Neighbouring lanes exchange pairs, so that even ones
// have 4 columns of the first 8, odd ones 4 of the second.
__device__ __forceinline__ void store_bytes(unsigned char* slot, int g, const uint32_t* words,
                                            int lane) {
  const bool is_odd = lane & 1;
  const int row = lane >> 2;
  const uint32_t given = __byte_perm(words[0], words[1], is_odd ? 0x5410 : 0x7632);
  const uint32_t taken = __shfl_xor_sync(0xffffffffu, given, 1);
  const uint32_t low = __byte_perm(words[0], taken, is_odd ? 0x3254 : 0x5410);
  const uint32_t high = __byte_perm(words[1], taken, is_odd ? 0x3276 : 0x7610);
  const uint32_t place = cute::cast_smem_ptr_to_uint(slot) + row * 128 + ((g ^ (row & 7)) << 4) +
                         (lane & 1) * 8 + (lane & 2) * 2;
  store_word(place, low);
  store_word(place + 8 * 128, high);
}

// Group g of a chunk from registers to its slots.
template <class Element, bool kTransposed>
__device__ __forceinline__ void store_group(unsigned char* slot, int g, const uint32_t* words,
                                            int lane) {
  if constexpr (is_byte<Element>()) return store_bytes(slot, g, words, lane);
  if constexpr (is_wide<Element>()) {
    const uint32_t place = place_of<Element>(slot, lane);
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      store_pair(wide_place(place, g, i), words + i * 2);
    }
  } else {
    store_matrices<kTransposed>(matrix_place<Element, kTransposed>(slot, g, lane), words);
  }
}

// One element's raw bits. Converting them only when they are used lets the load complete under the
// mainloop.
template <class Element>
__device__ __forceinline__ uint32_t fetch_bits(const void* data, long long i) {
  const char* address = static_cast<const char*>(data) +
                        i * static_cast<long long>(sizeof(typename Element::Storage));
  if constexpr (sizeof(typename Element::Storage) == 4) {
    uint32_t bits;
    asm volatile("ld.global.b32 %0, [%1];" : "=r"(bits) : "l"(address));
    return bits;
  } else if constexpr (sizeof(typename Element::Storage) == 2) {
    unsigned short bits;
    asm volatile("ld.global.b16 %0, [%1];" : "=h"(bits) : "l"(address));
    return bits;
  } else {
    return *reinterpret_cast<const unsigned char*>(address);
  }
}

template <class Config, class Element>
__device__ __forceinline__ uint32_t fetch_bits(const abi::Vector& vector, int i, Batch batch) {
  long long at = i * vector.stride;
  if constexpr (Config::Scheduler::kBatched) at += offset_of(vector.batch, batch);
  return fetch_bits<Element>(vector.data, at);
}

template <class Element>
__device__ __forceinline__ float decode_bits(uint32_t bits) {
  if constexpr (sizeof(typename Element::Storage) == 4) {
    return __uint_as_float(bits);
  } else {
    return Element::load(static_cast<typename Element::Storage>(bits));
  }
}

}  // namespace epifuse::sm90
