// What a warp of the kernel for few rows sums up where it takes whole vectors. A kernel's code
// comes from memory as its weights do: little of it stands before the first load.
#pragma once

#include "kernels/common/widen.cuh"
#include "kernels/sm90/few_rows_tile.cuh"

namespace epifuse::sm90 {

// Of row `row` of a thread's rows of B, 8 elements of half a step as they are multiplied. A vector
// of 8 bits has those of both halves.
template <class Config>
__device__ __forceinline__ uint4 half_of_b(const uint4* vectors, int half, int row) {
  if constexpr (kWidensB<Config>) {
    using To = typename Config::Operand;
    using From = typename Config::OperandB;
    const uint4& x = vectors[row];
    const uint32_t low = half == 0 ? x.x : x.z, high = half == 0 ? x.y : x.w;
    return make_uint4(Widened<To, From, 0>::of(low), Widened<To, From, 1>::of(low),
                      Widened<To, From, 0>::of(high), Widened<To, From, 1>::of(high));
  } else {
    return vectors[half * 2 * FewRowsTile<Config>::kBlocks + row];
  }
}

template <class Config>
__device__ __forceinline__ void multiply_k_major(const typename FewRowsTile<Config>::Step& step,
                                                 typename FewRowsTile<Config>::Sums& sums) {
  using Tile = FewRowsTile<Config>;
#pragma unroll
  for (int product = 0; product < Tile::kOperands; ++product) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
#pragma unroll
      for (int block = 0; block < Tile::kBlocks; ++block) {
        const uint4 low = half_of_b<Config>(step.b[product], half, 2 * block);
        const uint4 high = half_of_b<Config>(step.b[product], half, 2 * block + 1);
#pragma unroll
        for (int rows = 0; rows < Tile::kRowBlocks; ++rows) {
          const uint4& a = step.a[rows][half];
          Mma<typename Config::Operand>::run(sums[product][rows][block],
                                             {low.x, high.x, low.y, high.y}, a.x, a.y);
          Mma<typename Config::Operand>::run(sums[product][rows][block],
                                             {low.z, high.z, low.w, high.w}, a.z, a.w);
        }
      }
    }
  }
}

// Steps of K go to the warps of a cluster by turns: `share` is the warp's number among them. Rows
// past the last are others again, whose sums are dropped.
template <class Config>
class FewRowsVectors {
  using Tile = FewRowsTile<Config>;
  using Step = typename Tile::Step;
  static constexpr int kShares = Config::kWarps * Config::kSplitK;
  static constexpr int kStepBytes = Tile::kStep * 2,
                       kStepBytesOfB = Tile::kStep * kBytesOfB<Config>;
  static constexpr int kRowsOfB = 2 * Tile::kBlocks;  // of a thread
  static constexpr int kVectorBytes = 16;
  static constexpr int kVector = kVectorBytes / kBytesOfB<Config>;  // elements of B
  // Between a thread's two vectors of A of a step: where B's elements are widened, side by side.
  static constexpr int kHalfBytes = kWidensB<Config> ? kVectorBytes : kStepBytes / 2;

 public:
  __device__ __forceinline__ FewRowsVectors(const abi::FewRowsParams& p,
                                            const FewRowsPlace<Config>& place, unsigned share)
      : steps_(static_cast<int>((steps_of(p) + kShares - 1 - share) / kShares)),
        left_(steps_of(p) % kShares == share ? p.k % Tile::kStep : 0) {
    const int lane = static_cast<int>(threadIdx.x & 31);
    const unsigned first = share * Tile::kStep + lane % 4 * kVector;
    const auto row_of = [&](auto type, const abi::Matrix& x, int row) {
      using Storage = typename decltype(type)::Storage;
      return reinterpret_cast<const char*>(static_cast<const Storage*>(x.data) +
                                           place.offset(x.batch) + first +
                                           static_cast<unsigned>(row) * x.row_stride);
    };
#pragma unroll
    for (int i = 0; i < kRowsOfB; ++i) {
      const abi::Matrix& b = Tile::kJoined && i % 2 == 1 ? p.second_b : p.b;
      const int column = place.column + (Tile::kJoined ? i / 2 : i) * 8 + lane / 4;
      b_[i] = row_of(typename Config::OperandB(), b, min(column, p.n - 1));
    }
#pragma unroll
    for (int i = 0; i < Tile::kRowBlocks; ++i) {
      a_[i] = row_of(typename Config::Operand(), p.a,
                     min(place.row + i * kRowsOfBlock + lane / 4, p.m - 1));
    }
  }

  // What the first loads read of B, into L2.
  __device__ __forceinline__ void fetch_first() const {
    constexpr int kAhead = 2, kLanes = 4;
    const int at = static_cast<int>(threadIdx.x % 4) * (kStepBytesOfB / kLanes - kVectorBytes);
#pragma unroll
    for (int ahead = 0; ahead < kAhead; ++ahead) {
#pragma unroll
      for (int i = 0; i < kRowsOfB; ++i) {
        if (ahead < steps_) fetch_to_l2(b_[i] + ahead * (kShares * kStepBytesOfB) + at);
      }
    }
  }

  // Calls meanwhile() while the first loads are on their way.
  template <class F>
  __device__ __forceinline__ void sum(typename Tile::Sums& sums, F meanwhile) {
    Step loaded[Config::kDepth];
#pragma unroll
    for (int i = 0; i < Config::kDepth; ++i) {
      if (i < steps_) load(i, loaded[i]);
    }
    meanwhile();
#pragma unroll 1
    for (int left = steps_; left > 0; left -= Config::kDepth) {
      move(Config::kDepth);
#pragma unroll
      for (int i = 0; i < Config::kDepth; ++i) {
        if (left <= i) break;
        multiply_k_major<Config>(loaded[i], sums);
        if (left > i + Config::kDepth) load(i, loaded[i]);
      }
    }
    if (left_ > 0) [[unlikely]] {
      // Pointers have moved by whole rounds of kDepth steps.
      move(steps_ - (steps_ + Config::kDepth - 1) / Config::kDepth * Config::kDepth);
      Step step;
      load_left(step);
      multiply_k_major<Config>(step, sums);
    }
  }

 private:
  static __device__ __forceinline__ unsigned steps_of(const abi::FewRowsParams& p) {
    return static_cast<unsigned>(p.k) / Tile::kStep;
  }

  __device__ __forceinline__ void move(int steps) {
#pragma unroll
    for (int i = 0; i < kRowsOfB; ++i) b_[i] += steps * (kShares * kStepBytesOfB);
#pragma unroll
    for (int i = 0; i < Tile::kRowBlocks; ++i) a_[i] += steps * (kShares * kStepBytes);
  }

  // The step `ahead` of where pointers are.
  __device__ __forceinline__ void load(int ahead, Step& to) const {
    const int first = ahead * kShares;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
#pragma unroll
      for (int i = 0; i < kRowsOfB; ++i) {
        if (half * kRowsOfB + i >= Tile::kVectors) break;
        to.b[0][half * kRowsOfB + i] =
            load_once(b_[i] + first * kStepBytesOfB + half * (kStepBytesOfB / 2));
      }
#pragma unroll
      for (int i = 0; i < Tile::kRowBlocks; ++i) {
        to.a[i][half] = load_16_bytes(a_[i] + first * kStepBytes + half * kHalfBytes);
      }
    }
  }

  // Of a step that K ends in, its whole vectors.
  __device__ __forceinline__ void load_left(Step& to) const {
    const int first = static_cast<int>(threadIdx.x) % 4 * kVector;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int of_half = kWidensB<Config> ? 0 : half * (Tile::kStep / 2);
      const bool is_there = first + of_half + kVector <= left_;
#pragma unroll
      for (int i = 0; i < kRowsOfB; ++i) {
        if (half * kRowsOfB + i >= Tile::kVectors) break;
        to.b[0][half * kRowsOfB + i] = load_once(b_[i] + half * (kStepBytesOfB / 2), is_there);
      }
#pragma unroll
      for (int i = 0; i < Tile::kRowBlocks; ++i) {
        to.a[i][half] = load_16_bytes(a_[i] + half * kHalfBytes, is_there);
      }
    }
  }

  const int steps_, left_;  // whole ones, elements of one that is not
  const char* b_[kRowsOfB];
  const char* a_[Tile::kRowBlocks];
};

}  // namespace epifuse::sm90
