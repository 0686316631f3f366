// How a warp of the kernel for few rows reads its operands where B runs along N: straight from
// memory into registers, and from there into the order in which mma.sync takes them.
#pragma once

#include "kernels/sm90/few_rows_realign.cuh"

namespace epifuse::sm90 {

// Half a vector whose first element is number `shift`, 0 to 3, of a whole one.
__device__ __forceinline__ uint4 realign_half(const uint4& from, int shift) {
  uint32_t words[4] = {from.x, from.y, from.z, from.w};
  realign<2, 2>(words, shift);
  return make_uint4(words[0], words[1], 0, 0);
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
      stride_[product] = b.col_stride;
    }
#pragma unroll
    for (int i = 0; i < kOffsets; ++i)
      columns_[i] = min(place.column + offset(i), last_column(p.n));
  }

  __device__ __forceinline__ void load(int k, Loaded& to) const {
    if constexpr (!Config::kBIsShifted) {
      load_b(k, to);
    } else {
      load_shifted(k, to);
    }
    load_a(k, to);
  }

  // A step that was loaded from `k`.
  __device__ __forceinline__ void arrange(int k, const Loaded& from, Step& to) const {
    arrange_b(k, from, to);
    arrange_a(from, to);
  }

 private:
  static constexpr int kOffsets = Tile::kGroups;     // columns of B side by side, of a thread
  static constexpr int kHalf = Tile::kElements / 2;  // of K, of a thread, of half a step

  __device__ __forceinline__ int offset(int i) const {
    return i * Tile::kColumnsOfGroup + lane_ / 4 * Tile::kColumnsOfThread;
  }
  static __device__ __forceinline__ int last_column(int n) {
    constexpr int kOfThread = Tile::kColumnsOfThread;
    return (n - 1) / kOfThread * kOfThread;
  }
  // Of K: the first that this thread multiplies of one half of a step that starts at `k`.
  __device__ __forceinline__ int first_k(int k, int half) const {
    constexpr int kLanes = 4;
    return k + half * (kLanes * kHalf) + lane_ % 4 * kHalf;
  }
  // Of row `k`, the first of the columns side by side.
  __device__ __forceinline__ const Storage* place_of(int product, int k, int i) const {
    return b_[product] + k * stride_[product] + columns_[i];
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
          const Storage* from = place_of(product, k, i);
#pragma unroll
          for (int j = 0; j < kHalf; ++j, from += stride_[product]) {
            uint4& vector = to.b[product][(i * 2 + half) * kHalf + j];
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

  // Elements between a boundary of a load and the first column of row `k`.
  __device__ __forceinline__ int shift_at(int k, int i) const {
    const auto stride = static_cast<unsigned>(stride_[0]);
    const unsigned at = static_cast<unsigned>(k) * stride + static_cast<unsigned>(columns_[i]);
    return static_cast<int>((static_cast<unsigned>(shift_of(b_[0])) + at) % Tile::kColumnsOfThread);
  }
  __device__ __forceinline__ void load_shifted(int first, Loaded& to) const {
    constexpr int kLoad = Tile::kColumnsOfThread;
#pragma unroll
    for (int four = 0; four < Tile::kVectors / kHalf; ++four) {
      const int i = four / 2, k = first_k(first, four % 2);
      const Storage* place = place_of(0, k, i);
#pragma unroll
      for (int j = 0; j < kHalf; ++j, place += stride_[0]) {
        const int row = four * kHalf + j, shift = shift_at(k + j, i);
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
        } else {
          put_half(to.a[block], half, load_8_bytes(a_[block] + k, is_there));
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
    } else {
#pragma unroll
      for (int row = 0; row < Tile::kVectors; ++row) {
        const int i = row / (2 * kHalf), half = row / kHalf % 2;
        const int k = first_k(first, half) + row % kHalf;
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
      if constexpr (Config::kLoadsOfA == LoadsOfA::vectors) {
        to.a[block][0] = from.a[block];
      } else {
        const auto pair = [&](int i) {
          return from.elements[block][i] | static_cast<uint32_t>(from.elements[block][i + 1]) << 16;
        };
        to.a[block][0] = make_uint4(pair(0), pair(2), pair(4), pair(6));
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
