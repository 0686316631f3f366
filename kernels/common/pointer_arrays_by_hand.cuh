// Of many problems those that a family's GEMM does not take (kernels/common/pointer_arrays.cuh):
// CUDA cores multiply, in float32, at any strides, and the epilogue is the same.
//
// A block takes tiles of 64 x 64 results, a thread 4 x 4 of them. Where there is no such problem,
// blocks find that out and end.
#pragma once

#include "kernels/abi.h"
#include "kernels/common/element.cuh"
#include "kernels/common/operands.cuh"
#include "kernels/common/overlap.cuh"

namespace epifuse::by_hand {

constexpr int kTile = 64, kDepth = 16, kEach = 4;
constexpr int kThreads = abi::kByHandThreads;
constexpr int kAcross = kTile / kEach;
static_assert(kAcross * kAcross == kThreads && kTile * kDepth % kThreads == 0);

template <class Element>
__device__ __forceinline__ float read(const void* data, long long i) {
  return Element::load(static_cast<const typename Element::Storage*>(data)[i]);
}
template <class Element>
__device__ __forceinline__ float read(const abi::Matrix& x, long long row, long long col) {
  return read<Element>(x.data, row * x.row_stride + col * x.col_stride);
}

// Config (generated): A and B, the element types of the operands, and kProducts, 2 where gated.
template <class Config, class Epilogue>
class Tile {
  static constexpr int kProducts = Config::kProducts;
  using A = typename Config::A;
  using B = typename Config::B;

 public:
  __device__ __forceinline__ Tile(const abi::ByHandParams& all, const abi::Problem& problem,
                                  long long row, long long col)
      : all_(all), problem_(problem), p_(problem.by_hand), row_(row), col_(col) {}

  __device__ __forceinline__ void run() {
    const int thread = static_cast<int>(threadIdx.x);
    const int down = thread / kAcross * kEach, across = thread % kAcross * kEach;
    float sums[kProducts][kEach][kEach] = {};
    for (long long k = 0; k < p_.k; k += kDepth) multiply(k, down, across, sums);
    for (int i = 0; i < kEach; ++i) {
      for (int j = 0; j < kEach; ++j) {
        const long long row = row_ + down + i, col = col_ + across + j;
        if (row < p_.m && col < p_.n) {
          write(row, col, sums[0][i][j], sums[kProducts - 1][i][j]);
        }
      }
    }
  }

 private:
  __device__ __forceinline__ void multiply(long long k, int down, int across,
                                           float (&sums)[kProducts][kEach][kEach]) {
    __shared__ float a[kDepth][kTile + 1], b[kProducts][kDepth][kTile + 1];
    __syncthreads();  // the step before has been read
#pragma unroll
    for (int i = static_cast<int>(threadIdx.x); i < kTile * kDepth; i += kThreads) {
      const int depth = i % kDepth, at = i / kDepth;
      const bool has_k = k + depth < p_.k;
      a[depth][at] = has_k && row_ + at < p_.m ? read<A>(p_.a, row_ + at, k + depth) : 0.0f;
      const bool has_b = has_k && col_ + at < p_.n;
      b[0][depth][at] = has_b ? read<B>(p_.b, col_ + at, k + depth) : 0.0f;
      if constexpr (kProducts > 1) {
        b[1][depth][at] = has_b ? read<B>(p_.second_b, col_ + at, k + depth) : 0.0f;
      }
    }
    __syncthreads();
#pragma unroll
    for (int depth = 0; depth < kDepth; ++depth) {
#pragma unroll
      for (int product = 0; product < kProducts; ++product) {
#pragma unroll
        for (int i = 0; i < kEach; ++i) {
#pragma unroll
          for (int j = 0; j < kEach; ++j) {
            sums[product][i][j] =
                fmaf(a[depth][down + i], b[product][depth][across + j], sums[product][i][j]);
          }
        }
      }
    }
  }

  __device__ __forceinline__ void write(long long row, long long col, float sum, float second) {
    Operands<Epilogue> x;
    const abi::GemmParams& vectors = problem_.product.gemm;
#pragma unroll
    for (int i = 0; i < Epilogue::kNumParameters; ++i) x.parameter[i] = all_.parameters[i];
    Epilogue::Scalars::for_each(
        [&](auto type, int i) { x.scalar[i] = read<decltype(type)>(vectors.scalars[i].data, 0); });
    Epilogue::Rows::for_each([&](auto type, int i) {
      x.row[i] = read<decltype(type)>(vectors.rows[i].data, col * vectors.rows[i].stride);
    });
    Epilogue::Cols::for_each([&](auto type, int i) {
      x.col[i] = read<decltype(type)>(vectors.cols[i].data, row * vectors.cols[i].stride);
    });
    Epilogue::Tiles::for_each(
        [&](auto type, int i) { x.tile[i] = read<decltype(type)>(p_.tiles[i], row, col); });
    float out[Epilogue::Stores::kCount];
    if constexpr (kProducts > 1) {
      Epilogue::apply(sum, second, x, out);
    } else {
      Epilogue::apply(sum, x, out);
    }
    Epilogue::Stores::for_each([&](auto type, int i) {
      using Element = decltype(type);
      const abi::Matrix& to = p_.stores[i];
      static_cast<typename Element::Storage*>(to.data)[row * to.row_stride + col * to.col_stride] =
          Element::store(out[i]);
    });
  }

  const abi::ByHandParams& all_;
  const abi::Problem& problem_;
  const abi::ByHand& p_;
  long long row_, col_;
};

template <class Config, class Epilogue>
__device__ __forceinline__ void problems(const abi::ByHandParams& p) {
  await_previous_kernel();
  int any = 0;
  for (int i = static_cast<int>(threadIdx.x); i < p.count; i += kThreads) {
    any |= p.tiles[i].is_by_hand;
  }
  if (!__syncthreads_or(any)) return;
  long long first_tile = 0;  // of the problem
  long long tile = blockIdx.x;
  for (int i = 0; i < p.count; ++i) {
    if (!p.tiles[i].is_by_hand) continue;
    const abi::ByHand& problem = p.problems[i].by_hand;
    const long long columns = (problem.n + kTile - 1) / kTile;
    const long long tiles = (problem.m + kTile - 1) / kTile * columns;
    for (; tile < first_tile + tiles; tile += gridDim.x) {
      const long long in_problem = tile - first_tile;
      Tile<Config, Epilogue>(p, p.problems[i], in_problem / columns * kTile,
                             in_problem % columns * kTile)
          .run();
    }
    first_tile += tiles;
  }
}

}  // namespace epifuse::by_hand
