// What a warp of the kernel for few rows sums up where B runs along K and rows of an operand start
// anywhere, or A runs along M. K is cut where vectors of B begin: rows of a tile begin at the same
// place of a vector, so B comes in whole vectors, and only A's are moved to it.
#pragma once

#include "kernels/sm90/few_rows_realign.cuh"
#include "kernels/sm90/few_rows_vectors.cuh"

namespace epifuse::sm90 {

// The first `count` elements of eight, less than all, with no byte read behind them.
__device__ __forceinline__ uint4 load_first_elements(const unsigned short* from, int count) {
  const int of_four = count & 4, of_two = count & 2;
  const uint2 four = load_8_bytes(from, of_four != 0);
  const uint32_t two = load_4_bytes(from + of_four, of_two != 0);
  const uint32_t one = load_2_bytes(from + of_four + of_two, count % 2 != 0);
  const uint32_t next = of_two != 0 ? two : one, last = of_two != 0 ? one : 0;
  return of_four != 0 ? make_uint4(four.x, four.y, next, last) : make_uint4(next, last, 0, 0);
}

// Steps of K go to the warps of a cluster by turns, as in FewRowsVectors. The first starts up to 7
// elements in front of K. One at an end of K takes single elements of A, and of B keeps those of K.
template <class Config>
class FewRowsShifted {
  using Tile = FewRowsTile<Config>;
  using Storage = typename Config::Operand::Storage;
  static constexpr int kTurn = Tile::kStep * Config::kWarps * Config::kSplitK;  // elements
  static constexpr int kRowsOfB = 2 * Tile::kBlocks;                            // of a thread
  static constexpr int kVector = 8, kHalfStep = Tile::kStep / 2;                // elements
  static constexpr bool kTakesElements = Config::kLoadsOfA == LoadsOfA::elements;

  struct Loaded {
    uint4 b[2 * kRowsOfB];
    // Of each half two vectors that hold a thread's elements, or an element each.
    uint32_t a[Tile::kRowBlocks][2][8];
  };

 public:
  __device__ __forceinline__ FewRowsShifted(const abi::FewRowsParams& p,
                                            const FewRowsPlace<Config>& place, unsigned share)
      : p_(p), place_(place), stride_of_a_(kTakesElements ? p.a.col_stride : 1) {
    const int lane = static_cast<int>(threadIdx.x & 31), first = min(place.column, p.n - 1);
    const int shift = Config::kBIsShifted ? shift_of(row_of(p.b, first)) : 0;
    k_ = static_cast<int>(share) * Tile::kStep - shift;
    const int k = k_ + lane % 4 * kVector;
    const int behind_k = -static_cast<unsigned>(shift + p.k) % kVector;  // in the last vector
#pragma unroll
    for (int i = 0; i < kRowsOfB; ++i) {
      const int column = place.column_at((Tile::kJoined ? i / 2 : i) * 8 + lane / 4);
      b_[i] = row_of(matrix_of(i), column < p.n ? column : first);
      leaves_matrix_[i] = b_[i] + behind_k > row_of(matrix_of(i), p.n - 1);
      b_[i] += k;
    }
#pragma unroll
    for (int i = 0; i < Tile::kRowBlocks; ++i) {
      const int row = min(place.row + i * kRowsOfBlock + lane / 4, p.m - 1);
      a_[i] = row_of(p.a, row) + k * stride_of_a_;
    }
  }

  // What the first loads read of B, into L2.
  __device__ __forceinline__ void fetch_first() const {
    constexpr int kSector = 16;
    const int of_lane = static_cast<int>(threadIdx.x % 4), k = k_ + of_lane * kSector;
#pragma unroll
    for (int i = 0; i < kRowsOfB; ++i) {
      if (k >= 0 && k < p_.k) fetch_to_l2(b_[i] + of_lane * (kSector - kVector));
    }
  }

  // Calls meanwhile() while the first loads are on their way.
  template <class F>
  __device__ __forceinline__ void sum(typename Tile::Sums& sums, F meanwhile) {
    bool is_first = true;
#pragma unroll 1
    do {
      Loaded loaded[Config::kDepth];
#pragma unroll
      for (int i = 0; i < Config::kDepth; ++i) {
        if (k_ + i * kTurn < p_.k) load(i * kTurn, loaded[i]);
      }
      if (is_first) meanwhile();
      is_first = false;
#pragma unroll
      for (int i = 0; i < Config::kDepth; ++i) {
        if (k_ + i * kTurn >= p_.k) break;
        typename Tile::Step step;
        arrange(k_ + i * kTurn, loaded[i], step);
        multiply_k_major<Config>(step, sums);
      }
      move();
    } while (k_ < p_.k);
  }

 private:
  __device__ __forceinline__ const abi::Matrix& matrix_of(int row_of_b) const {
    return Tile::kJoined && row_of_b % 2 == 1 ? p_.second_b : p_.b;
  }
  __device__ __forceinline__ const Storage* row_of(const abi::Matrix& x, int row) const {
    return static_cast<const Storage*>(x.data) + place_.offset(x.batch) + row * x.row_stride;
  }
  // Whether a vector of A or B may hold what is not of the row, in a step at `k`.
  __device__ __forceinline__ bool is_at_end(int k) const {
    return k < 0 || k + Tile::kStep + kVector > p_.k;
  }
  // Of K: the first that this thread multiplies of half a step at `k`.
  static __device__ __forceinline__ int first_k(int k, int half) {
    return k + half * kHalfStep + static_cast<int>(threadIdx.x % 4) * kVector;
  }
  __device__ __forceinline__ bool is_in_k(int k) const {
    return static_cast<unsigned>(k) < static_cast<unsigned>(p_.k);
  }

  __device__ __forceinline__ void move() {
    constexpr int kBy = kTurn * Config::kDepth;
    k_ += kBy;
#pragma unroll
    for (int i = 0; i < kRowsOfB; ++i) b_[i] += kBy;
#pragma unroll
    for (int i = 0; i < Tile::kRowBlocks; ++i) a_[i] += kBy * stride_of_a_;
  }

  // The step `ahead` elements of where pointers are.
  __device__ __forceinline__ void load(int ahead, Loaded& to) const {
    if (is_at_end(k_ + ahead)) {
      load_at_end(ahead, to);
      return;
    }
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int at = ahead + half * kHalfStep;
#pragma unroll
      for (int i = 0; i < kRowsOfB; ++i) to.b[half * kRowsOfB + i] = load_once(b_[i] + at);
#pragma unroll
      for (int i = 0; i < Tile::kRowBlocks; ++i) {
        if constexpr (kTakesElements) {
          load_elements(i, at, first_k(k_ + ahead, half), to.a[i][half]);
        } else {
          load_vectors_that_hold(a_[i] + at, to.a[i][half]);
        }
      }
    }
  }
  __device__ __forceinline__ void load_at_end(int ahead, Loaded& to) const {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int at = ahead + half * kHalfStep, k = first_k(k_ + ahead, half);
#pragma unroll
      for (int i = 0; i < kRowsOfB; ++i) {
        to.b[half * kRowsOfB + i] =
            load_once(b_[i] + at, k < p_.k && !(leaves_matrix_[i] && k + kVector > p_.k));
      }
#pragma unroll
      for (int i = 0; i < Tile::kRowBlocks; ++i) load_elements(i, at, k, to.a[i][half]);
    }
    // A row has one vector that may leave the matrix.
#pragma unroll
    for (int i = 0; i < kRowsOfB; ++i) {
      const int k = first_k(k_ + ahead, 0), half = k + kVector > p_.k ? 0 : 1;
      const int last = k + half * kHalfStep, count = p_.k - last;
      if (leaves_matrix_[i] && 0 < count && count < kVector) [[unlikely]] {
        const uint4 x = load_first_elements(b_[i] + ahead + half * kHalfStep, count);
        if (half == 0) to.b[i] = x;
        if (half == 1) to.b[kRowsOfB + i] = x;
      }
    }
  }

  __device__ __forceinline__ void load_elements(int row, int at, int k, uint32_t (&to)[8]) const {
#pragma unroll
    for (int j = 0; j < kVector; ++j) {
      to[j] = load_2_bytes(a_[row] + (at + j) * stride_of_a_, is_in_k(k + j));
    }
  }
  static __device__ __forceinline__ void load_vectors_that_hold(const Storage* from,
                                                                uint32_t (&to)[8]) {
    const Storage* const vector = from - shift_of(from);
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const uint4 x = load_16_bytes(vector + i * kVector);
      to[4 * i] = x.x, to[4 * i + 1] = x.y, to[4 * i + 2] = x.z, to[4 * i + 3] = x.w;
    }
  }

  // Of a step that was loaded from `k`.
  __device__ __forceinline__ void arrange(int k, Loaded& from, typename Tile::Step& to) const {
    const bool ends = is_at_end(k);
    if (ends) keep_k(k, from);
#pragma unroll
    for (int half = 0; half < 2; ++half) {
#pragma unroll
      for (int i = 0; i < kRowsOfB; ++i) to.b[0][half * kRowsOfB + i] = from.b[half * kRowsOfB + i];
#pragma unroll
      for (int i = 0; i < Tile::kRowBlocks; ++i) {
        auto& a = from.a[i][half];
        if (kTakesElements || ends) {
#pragma unroll
          for (int j = 0; j < 4; ++j) a[j] = a[2 * j] | a[2 * j + 1] << 16;
        } else {
          realign<4, 4>(a, shift_of(a_[i]));
        }
        to.a[i][half] = make_uint4(a[0], a[1], a[2], a[3]);
      }
    }
  }
  // Makes zeros of what vectors of B hold beside K.
  __device__ __forceinline__ void keep_k(int k, Loaded& from) const {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int first = first_k(k, half);
#pragma unroll
      for (int i = 0; i < kRowsOfB; ++i) {
        uint4& b = from.b[half * kRowsOfB + i];
        b.x &= of_k(first), b.y &= of_k(first + 2), b.z &= of_k(first + 4), b.w &= of_k(first + 6);
      }
    }
  }
  // The bits of a pair of elements that are of K.
  __device__ __forceinline__ uint32_t of_k(int first) const {
    return (is_in_k(first) ? 0xffffu : 0) | (is_in_k(first + 1) ? 0xffff0000u : 0);
  }

  const abi::FewRowsParams& p_;
  const FewRowsPlace<Config>& place_;
  const long long stride_of_a_;  // along K
  int k_;                        // of the warp's step
  const Storage* b_[kRowsOfB];
  bool leaves_matrix_[kRowsOfB];  // by the last vector of the row
  const Storage* a_[Tile::kRowBlocks];
};

}  // namespace epifuse::sm90
