// How a warp of the kernel for few rows reads its operands: straight from memory into registers,
// and from there into the order in which mma.sync takes them.
#pragma once

#include "kernels/sm90/few_rows_tile.cuh"

namespace epifuse::sm90 {

// The first `count` of two elements, and zeros.
__device__ __forceinline__ uint32_t first_of_pair(uint32_t pair, int count) {
  return count >= 2 ? pair : count == 1 ? pair & 0xffffu : 0;
}
// The first `count` of eight.
__device__ __forceinline__ uint4 first_of_eight(uint4 x, int count) {
  return make_uint4(first_of_pair(x.x, count), first_of_pair(x.y, count - 2),
                    first_of_pair(x.z, count - 4), first_of_pair(x.w, count - 6));
}

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

// Half a vector whose first element is number `shift`, 0 to 3, of a whole one.
__device__ __forceinline__ uint4 realign_half(const uint4& from, int shift) {
  uint32_t words[4] = {from.x, from.y, from.z, from.w};
  realign<2, 2>(words, shift);
  return make_uint4(words[0], words[1], 0, 0);
}

// Of K, what is read in vectors. All that their 16 bytes hold lies before the end of a matrix: what
// they leave is added element by element (sum_of_last_k).
template <class Config>
__device__ __forceinline__ int k_in_vectors(const abi::FewRowsParams& p) {
  if constexpr (!Config::kBIsKMajor) {
    const bool ends_whole =
        !Config::kBIsShifted && p.n % FewRowsTile<Config>::kColumnsOfThread == 0;
    return (ends_whole ? p.k : p.k - 1) / 4 * 4;
  }
  const int before_last = p.k > 7 ? p.k - 7 : 0;
  return Config::kBIsShifted ? before_last : p.k / 8 * 8;
}

// What lies past K is zero. What lies past the last column is another column, whose sums are
// dropped.
template <class Config>
class FewRowsLoads {
  using Tile = FewRowsTile<Config>;
  using Step = typename Tile::Step;
  using Loaded = typename Tile::Loaded;
  using Storage = typename Config::Operand::Storage;

 public:
  __device__ __forceinline__ FewRowsLoads(const abi::FewRowsParams& p,
                                          const FewRowsPlace<Config>& place)
      : n_(p.n),
        k_(k_in_vectors<Config>(p)),
        lane_(static_cast<int>(threadIdx.x) & 31),
        stride_of_a_(p.a.col_stride) {
    const auto of_batch = [&](const abi::Matrix& x) {
      return static_cast<const Storage*>(x.data) + place.offset(x.batch);
    };
#pragma unroll
    for (int block = 0; block < Tile::kRowBlocks; ++block) {
      const int at = place.row + block * kRowsOfBlock + lane_ / 4;
      has_row_[block] = at < p.m;
      a_[block] = of_batch(p.a) + (has_row_[block] ? at : 0) * p.a.row_stride;
    }
#pragma unroll
    for (int product = 0; product < Config::kProducts; ++product) {
      const abi::Matrix& b = product == 0 ? p.b : p.second_b;
      b_[product] = of_batch(b);
      stride_[product] = Config::kBIsKMajor ? b.row_stride : b.col_stride;
    }
#pragma unroll
    for (int i = 0; i < kOffsets; ++i)
      columns_[i] = min(place.column + offset(i), last_column(p.n));
  }

  __device__ __forceinline__ void load(int k, Loaded& to) const {
    if constexpr (!Config::kBIsShifted) {
      load_b(k, to);
    } else if constexpr (Config::kBIsKMajor) {
      load_shifted_k_major(k, to);
    } else {
      load_shifted_n_major(k, to);
    }
    load_a(k, to);
  }

  // A step that was loaded from `k`.
  __device__ __forceinline__ void arrange(int k, const Loaded& from, Step& to) const {
    arrange_b(k, from, to);
    arrange_a(from, to);
    if constexpr (Tile::kRun == 2) trim(k, to);
  }

 private:
  // Columns of B that a thread reads: rows of each block's instructions, or some side by side.
  static constexpr int kOffsets = !Config::kBIsKMajor ? Tile::kGroups
                                  : Tile::kJoined     ? Tile::kBlocks
                                                      : 2 * Tile::kBlocks;
  static constexpr int kHalf = Tile::kElements / 2;  // of K, of a thread, of half a step
  static constexpr int kRowsOfHalf = 4;              // the same where B runs along N

  __device__ __forceinline__ int offset(int i) const {
    return Config::kBIsKMajor ? i * 8 + lane_ / 4
                              : i * Tile::kColumnsOfGroup + lane_ / 4 * Tile::kColumnsOfThread;
  }
  static __device__ __forceinline__ int last_column(int n) {
    constexpr int kOfThread = Tile::kColumnsOfThread;
    return Config::kBIsKMajor ? n - 1 : (n - 1) / kOfThread * kOfThread;
  }
  // Of K: the first that this thread multiplies of one half of a step that starts at `k`.
  __device__ __forceinline__ int first_k(int k, int half) const {
    constexpr int kLanes = 4;
    return Tile::kRun == 2 ? k + lane_ % 4 * (2 * kHalf) + half * kHalf
                           : k + half * (kLanes * kHalf) + lane_ % 4 * kHalf;
  }
  // Where B runs along N: of row `k`, the first of the columns side by side.
  __device__ __forceinline__ const Storage* place_of(int product, int k, int i) const {
    return b_[product] + k * stride_[product] + columns_[i];
  }
  __device__ __forceinline__ const Storage* row_of_b(int i) const {
    return b_[0] + columns_[i] * stride_[0];
  }

  static __device__ __forceinline__ uint4& k_major_vector(
      uint4 (&b)[Tile::kOperands][Tile::kVectors], int product, int half, int i) {
    if constexpr (Tile::kJoined) return b[0][half * 2 * kOffsets + 2 * i + product];
    return b[product][half * kOffsets + i];
  }

  // Each of its halves is kHalf of K, of all columns.
  __device__ __forceinline__ void load_b(int first, Loaded& to) const {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int k = first_k(first, half);
#pragma unroll
      for (int product = 0; product < Config::kProducts; ++product) {
#pragma unroll
        for (int i = 0; i < kOffsets; ++i) {
          if constexpr (Config::kBIsKMajor) {
            const Storage* from = b_[product] + columns_[i] * stride_[product] + k;
            k_major_vector(to.b, product, half, i) = load_once(from, k < k_);
          } else {
            const Storage* from = place_of(product, k, i);
#pragma unroll
            for (int j = 0; j < kRowsOfHalf; ++j, from += stride_[product]) {
              uint4& vector = to.b[product][(i * 2 + half) * kRowsOfHalf + j];
              if constexpr (Tile::kReadsHalves) {
                put_half(vector, 0, load_8_bytes_once(from, k + j < k_));
              } else {
                vector = load_once(from, k + j < k_);
              }
            }
          }
        }
      }
    }
  }

  // Of a row along K, the vectors that hold what this thread multiplies of a step.
  __device__ __forceinline__ void load_run(const Storage* row, int first, bool is_there,
                                           uint4* to) const {
    const int k = first_k(first, 0), shift = shift_of(row);
#pragma unroll
    for (int i = 0; i <= Tile::kRun; ++i) {
      const int at = k - shift + i * 8;
      const bool holds_some = (i == 0 ? k : at) < k_ && (i < Tile::kRun || shift > 0);
      to[i] = load_16_bytes(row + at, is_there && holds_some);
    }
  }
  __device__ __forceinline__ void load_shifted_k_major(int first, Loaded& to) const {
#pragma unroll
    for (int i = 0; i < kOffsets; ++i)
      load_run(row_of_b(i), first, true, &to.b[0][i * Tile::kLoadsOfRun]);
  }
  // Where B runs along N: elements between a boundary of a load and the first column of row `k`.
  __device__ __forceinline__ int shift_at(int k, int i) const {
    const auto stride = static_cast<unsigned>(stride_[0]);
    const unsigned at = static_cast<unsigned>(k) * stride + static_cast<unsigned>(columns_[i]);
    return static_cast<int>((static_cast<unsigned>(shift_of(b_[0])) + at) % Tile::kColumnsOfThread);
  }
  __device__ __forceinline__ void load_shifted_n_major(int first, Loaded& to) const {
    constexpr int kLoad = Tile::kColumnsOfThread;
#pragma unroll
    for (int four = 0; four < Tile::kVectors / kRowsOfHalf; ++four) {
      const int i = four / 2, k = first_k(first, four % 2);
      const Storage* place = place_of(0, k, i);
#pragma unroll
      for (int j = 0; j < kRowsOfHalf; ++j, place += stride_[0]) {
        const int row = four * kRowsOfHalf + j, shift = shift_at(k + j, i);
        const bool is_there = k + j<k_, holds_more = shift> 0 && columns_[i] - shift + kLoad < n_;
        const Storage* from = place - shift;
        if constexpr (Tile::kReadsHalves) {
          put_half(to.b[0][row], 0, load_8_bytes(from, is_there));
          put_half(to.b[0][row], 1, load_8_bytes(from + kLoad, is_there && holds_more));
        } else {
          to.b[0][2 * row] = load_16_bytes(from, is_there);
          to.b[0][2 * row + 1] = load_16_bytes(from + kLoad, is_there && holds_more);
        }
      }
    }
  }

  __device__ __forceinline__ void load_a(int first, Loaded& to) const {
#pragma unroll
    for (int block = 0; block < Tile::kRowBlocks; ++block) {
      if constexpr (Config::kLoadsOfA == LoadsOfA::shifted) {
        load_run(a_[block], first, has_row_[block], to.a[block]);
        continue;
      }
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const int k = first_k(first, half);
        const bool is_there = k < k_ && has_row_[block];
        if constexpr (Config::kLoadsOfA == LoadsOfA::elements) {
#pragma unroll
          for (int i = 0; i < kHalf; ++i) {
            to.elements[block][half * kHalf + i] =
                load_2_bytes(a_[block] + (k + i) * stride_of_a_, k + i < k_ && has_row_[block]);
          }
        } else if constexpr (Config::kBIsKMajor) {
          to.a[block][half] = load_16_bytes(a_[block] + k, is_there);
        } else {
          put_half(to.a[block][0], half, load_8_bytes(a_[block] + k, is_there));
        }
      }
    }
  }

  static __device__ __forceinline__ void put_half(uint4& to, int half, const uint2& x) {
    (half == 0 ? to.x : to.z) = x.x;
    (half == 0 ? to.y : to.w) = x.y;
  }

  __device__ __forceinline__ void arrange_b(int first, const Loaded& from, Step& to) const {
    if constexpr (!Config::kBIsShifted) {
#pragma unroll
      for (int operand = 0; operand < Tile::kOperands; ++operand) {
#pragma unroll
        for (int i = 0; i < Tile::kVectors; ++i) to.b[operand][i] = from.b[operand][i];
      }
    } else if constexpr (Config::kBIsKMajor) {
#pragma unroll
      for (int i = 0; i < kOffsets; ++i) {
        uint4 run[2];
        realign<2>(&from.b[0][i * Tile::kLoadsOfRun], shift_of(row_of_b(i)), run);
        to.b[0][i] = run[0];
        to.b[0][kOffsets + i] = run[1];
      }
    } else {
#pragma unroll
      for (int row = 0; row < Tile::kVectors; ++row) {
        const int i = row / (2 * kRowsOfHalf), half = row / kRowsOfHalf % 2;
        const int k = first_k(first, half) + row % kRowsOfHalf;
        if constexpr (Tile::kReadsHalves) {
          to.b[0][row] = realign_half(from.b[0][row], shift_at(k, i));
        } else {
          realign<1>(&from.b[0][2 * row], shift_at(k, i), &to.b[0][row]);
        }
      }
    }
  }

  __device__ __forceinline__ void arrange_a(const Loaded& from, Step& to) const {
#pragma unroll
    for (int block = 0; block < Tile::kRowBlocks; ++block) {
      if constexpr (Config::kLoadsOfA == LoadsOfA::shifted) {
        realign<2>(from.a[block], shift_of(a_[block]), to.a[block]);
      } else if constexpr (Config::kLoadsOfA == LoadsOfA::vectors) {
        to.a[block][0] = from.a[block][0];
        if constexpr (Config::kBIsKMajor) to.a[block][1] = from.a[block][1];
      } else {
        const auto pair = [&](int i) {
          return from.elements[block][i] | static_cast<uint32_t>(from.elements[block][i + 1]) << 16;
        };
        to.a[block][0] = make_uint4(pair(0), pair(2), pair(4), pair(6));
        if constexpr (Config::kBIsKMajor) {
          to.a[block][1] = make_uint4(pair(8), pair(10), pair(12), pair(14));
        }
      }
    }
  }

  // Vectors of misaligned rows along K hold what lies past it.
  __device__ __forceinline__ void trim(int k, Step& step) const {
    if (k + Tile::kStep <= k_) return;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int left = k_ - first_k(k, half);
#pragma unroll
      for (int i = 0; i < kOffsets; ++i) {
        uint4& b = k_major_vector(step.b, 0, half, i);
        b = first_of_eight(b, left);
      }
#pragma unroll
      for (int block = 0; block < Tile::kRowBlocks; ++block) {
        step.a[block][half] = first_of_eight(step.a[block][half], left);
      }
    }
  }

  const int n_, k_, lane_;
  const long long stride_of_a_;  // along K
  const Storage* a_[Tile::kRowBlocks];
  bool has_row_[Tile::kRowBlocks];
  const Storage* b_[Config::kProducts];
  long long stride_[Config::kProducts];
  int columns_[kOffsets];
};

}  // namespace epifuse::sm90
