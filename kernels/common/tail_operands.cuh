// Operands of a tail kernel: vectors of elements on their way between memory and registers.
#pragma once

#include "kernels/abi.h"
#include "kernels/common/element.cuh"
#include "kernels/common/integers.cuh"
#include "kernels/common/operands.cuh"

namespace epifuse::tail {

constexpr int kRowDim = abi::kMaxRank - 2, kColDim = abi::kMaxRank - 1;

// Where a vector lies in the matrix of the last two dims.
struct Place {
  long long row, col;
  int count;  // elements of it that exist: 0 to kVector
};

template <int kVector>
__device__ __forceinline__ Place place(long long row, long long col, long long num_cols) {
  const long long left = num_cols - col;
  return {row, col, left >= kVector ? kVector : left > 0 ? static_cast<int>(left) : 0};
}

// One operand at one index of the leading dims.
struct Matrix {
  static constexpr bool kLooksUp = false;
  char* data;
  long long row_stride, col_stride;  // in elements
  bool vector;                       // rows can be moved in whole, aligned vectors

  template <class Element>
  __device__ __forceinline__ typename Element::Storage* at(long long row, long long col) const {
    return reinterpret_cast<typename Element::Storage*>(data) + row * row_stride + col * col_stride;
  }
};

// What number `i` along a dim stands for; -1 for a row that is put nowhere.
__device__ __forceinline__ long long looked_up(const abi::Lookup& lookup, int dim, long long i) {
  if (lookup.kind == abi::LookupKind::none || lookup.dim != dim) return i;
  if (lookup.kind == abi::LookupKind::ends) return group_of_row(lookup.integers, i);
  if (lookup.kind == abi::LookupKind::index) return row_to_read(lookup.integers, i);
  const long long row = named_row(lookup.integers, i);
  return row < lookup.integers.num_rows ? row : -1;
}

// The same with a dim along which numbers are looked up.
struct LookupMatrix : Matrix {
  static constexpr bool kLooksUp = true;
  const abi::Lookup* lookup;

  // Null for a row that is put nowhere.
  template <class Element>
  __device__ __forceinline__ typename Element::Storage* at(long long row, long long col) const {
    row = looked_up(*lookup, kRowDim, row);
    col = looked_up(*lookup, kColDim, col);
    if (data == nullptr || row < 0 || col < 0) return nullptr;
    return Matrix::at<Element>(row, col);
  }
};

template <class Element>
__device__ __forceinline__ Matrix matrix(const abi::TailParams& p, const abi::Strided& operand,
                                         const abi::Lookup* lookup, bool vector, long long outer) {
  long long offset = 0;
#pragma unroll
  for (int d = kRowDim - 1; d >= 0; --d) {
    const bool is_looked_up = lookup != nullptr && lookup->dim == d;
    if (p.sizes[d] == 1 && !is_looked_up) continue;
    long long i = outer % p.sizes[d];
    if (is_looked_up) {
      i = looked_up(*lookup, d, i);
      if (i < 0) return {nullptr, 0, 0, false};  // a row that is put nowhere
    }
    offset += i * operand.strides[d];
    outer /= p.sizes[d];
  }
  constexpr long long kBytes = sizeof(typename Element::Storage);
  return {static_cast<char*>(operand.data) + offset * kBytes, operand.strides[kRowDim],
          operand.strides[kColDim], vector};
}

// A stride that places in memory are computed with where they are used. From Blackwell on NVRTC
// computes those of all elements before the loop over a row, and spills them.
__device__ __forceinline__ long long kept_in_loop(long long stride) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 1000
  asm volatile("" : "+l"(stride));
#endif
  return stride;
}

// kVector elements as they are in memory.
template <class Element, int kVector>
struct Packed {
  using Storage = typename Element::Storage;
  static constexpr int kBits = 8 * sizeof(Storage), kPerWord = 32 / kBits;
  static constexpr int kWords = kVector / kPerWord;
  static_assert(kVector % kPerWord == 0, "a vector is a number of whole words");
  uint32_t words[kWords];

  static __device__ __forceinline__ uint32_t to_bits(Storage x) {
    if constexpr (kBits == 32) {
      return __float_as_uint(x);
    } else {
      return x;
    }
  }
  __device__ __forceinline__ Storage element(int i) const {
    const uint32_t bits = words[i / kPerWord] >> (i % kPerWord * kBits);
    if constexpr (kBits == 32) {
      return __uint_as_float(bits);
    } else {
      return static_cast<Storage>(bits);
    }
  }
  __device__ __forceinline__ void clear() {
#pragma unroll
    for (int w = 0; w < kWords; ++w) words[w] = 0;
  }
  __device__ __forceinline__ void add_bits(int i, uint32_t bits) {
    words[i / kPerWord] |= bits << (i % kPerWord * kBits);
  }

  // Starts the loads; settle() must follow before get().
  template <class M>
  __device__ __forceinline__ void fetch(const M& m, const Place& at) {
    const Storage* source = m.template at<Element>(at.row, at.col);
    if (m.vector && at.count == kVector) {
      read(source);
      return;
    }
    clear();
    if (m.col_stride == 0) {
      words[0] = to_bits(*source);
      return;
    }
    const long long col_stride = kept_in_loop(m.col_stride);
#pragma unroll
    for (int i = 0; i < kVector; ++i) {
      if (i >= at.count) continue;
      if constexpr (M::kLooksUp) {
        add_bits(i, to_bits(*m.template at<Element>(at.row, at.col + i)));
      } else {
        add_bits(i, to_bits(source[i * col_stride]));
      }
    }
  }

  // Repeats the one element that was fetched of an operand that does not vary along the row.
  __device__ __forceinline__ void settle(const Matrix& m) {
    if (m.col_stride != 0) return;
    const uint32_t first = words[0];
    clear();
#pragma unroll
    for (int i = 0; i < kVector; ++i) add_bits(i, first);
  }

  __device__ __forceinline__ float get(int i) const { return Element::load(element(i)); }

  // Rounds one column of `values`.
  template <int kColumns>
  __device__ __forceinline__ void set(const float (&values)[kVector][kColumns], int column) {
    if constexpr (kBits == 16) {
#pragma unroll
      for (int w = 0; w < kWords; ++w) {
        words[w] = pack<Element>(values[2 * w][column], values[2 * w + 1][column]);
      }
    } else {
      clear();
#pragma unroll
      for (int i = 0; i < kVector; ++i) add_bits(i, to_bits(Element::store(values[i][column])));
    }
  }

  template <class M>
  __device__ __forceinline__ void put(const M& m, const Place& at) const {
    if constexpr (M::kLooksUp) return put_looked_up(m, at);
    Storage* target = m.template at<Element>(at.row, at.col);
    if (m.vector && at.count == kVector) {
      write(target);
      return;
    }
    const long long col_stride = kept_in_loop(m.col_stride);
#pragma unroll
    for (int i = 0; i < kVector; ++i) {
      if (i < at.count) target[i * col_stride] = element(i);
    }
  }

 private:
  __device__ __forceinline__ void put_looked_up(const LookupMatrix& m, const Place& at) const {
    if (m.vector && at.count == kVector) {
      Storage* target = m.template at<Element>(at.row, at.col);
      if (target != nullptr) write(target);
      return;
    }
#pragma unroll
    for (int i = 0; i < kVector; ++i) {
      if (i >= at.count) continue;
      Storage* target = m.template at<Element>(at.row, at.col + i);
      if (target != nullptr) *target = element(i);
    }
  }

  // Whole vectors, up to 16 bytes at a time.
  __device__ __forceinline__ void read(const Storage* source) {
    if constexpr (kWords % 4 == 0) {
#pragma unroll
      for (int w = 0; w < kWords; w += 4) {
        const uint4 x = reinterpret_cast<const uint4*>(source)[w / 4];
        words[w] = x.x, words[w + 1] = x.y, words[w + 2] = x.z, words[w + 3] = x.w;
      }
    } else if constexpr (kWords == 2) {
      const uint2 x = *reinterpret_cast<const uint2*>(source);
      words[0] = x.x, words[1] = x.y;
    } else {
      static_assert(kWords == 1, "vectors are of 4, 8 or a multiple of 16 bytes");
      words[0] = *reinterpret_cast<const uint32_t*>(source);
    }
  }
  __device__ __forceinline__ void write(Storage* target) const {
    if constexpr (kWords % 4 == 0) {
#pragma unroll
      for (int w = 0; w < kWords; w += 4) {
        reinterpret_cast<uint4*>(target)[w / 4] =
            make_uint4(words[w], words[w + 1], words[w + 2], words[w + 3]);
      }
    } else if constexpr (kWords == 2) {
      *reinterpret_cast<uint2*>(target) = make_uint2(words[0], words[1]);
    } else {
      *reinterpret_cast<uint32_t*>(target) = words[0];
    }
  }
};

// The loads of one access (Types<...>) at one place.
template <int kVector, class List>
struct Fetched;
template <int kVector>
struct Fetched<kVector, Types<>> {
  template <class M>
  __device__ __forceinline__ void fetch(const M*, const Place&) {}
  template <class M>
  __device__ __forceinline__ void settle(const M*) {}
  __device__ __forceinline__ void get(int, float*) const {}
};
template <int kVector, class Element, class... Rest>
struct Fetched<kVector, Types<Element, Rest...>> {
  Packed<Element, kVector> first;
  Fetched<kVector, Types<Rest...>> rest;

  template <class M>
  __device__ __forceinline__ void fetch(const M* m, const Place& at) {
    first.fetch(m[0], at);
    rest.fetch(m + 1, at);
  }
  template <class M>
  __device__ __forceinline__ void settle(const M* m) {
    first.settle(m[0]);
    rest.settle(m + 1);
  }
  __device__ __forceinline__ void get(int i, float* out) const {
    out[0] = first.get(i);
    rest.get(i, out + 1);
  }
};

template <class List, int kIndex>
struct TypeAt;
template <class First, class... Rest>
struct TypeAt<Types<First, Rest...>, 0> {
  using Type = First;
};
template <class First, class... Rest, int kIndex>
struct TypeAt<Types<First, Rest...>, kIndex> : TypeAt<Types<Rest...>, kIndex - 1> {};

}  // namespace epifuse::tail
