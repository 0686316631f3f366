// Runs the kernels of kernels/sm80 on the host, lane by lane, on small matrices.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "cuda_on_host.h"
#include "kernels/sm80/gemm.cuh"

namespace epifuse::sm80 {

template <class Element_>
struct Small : UsualConfig {
  using Element = Element_;
  static constexpr int kTileM = 64, kTileN = 64, kWarpM = 32, kWarpN = 32;
  static constexpr int kStepBytes = 64, kStages = 3, kSharedBytes = 65536;
};

// out = acc * c + r + t, and where gated gate * up.
template <class Element>
struct Everything {
  using Rows = Types<Bf16>;
  using Cols = Types<F32>;
  using Tiles = Types<Element>;
  using Scalars = Types<F32>;
  using Stores = Types<Element, F32>;
  static constexpr int kNumParameters = 1;
  static float value(float acc, float row, float col, float tile) {
    return acc * col + row + tile * 2 + 3;
  }
  static void apply(float acc, const Operands<Everything>& x, float (&out)[2]) {
    out[0] = value(acc, x.row[0], x.col[0], x.tile[0]);
    out[1] = acc * x.parameter[0] + x.scalar[0];
  }
};

// y = the product, and of a gated one gate * 2 + up.
template <class Element, int kResults = 1>
struct Bare {
  using Rows = Types<>;
  using Cols = Types<>;
  using Tiles = Types<>;
  using Scalars = Types<>;
  using Stores = Types<Element>;
  static constexpr int kNumParameters = 0;
  static void apply(float acc, const Operands<Bare>&, float (&out)[kResults]) {
    for (float& each : out) each = acc;
  }
  static void apply(float gate, float up, const Operands<Bare>&, float (&out)[kResults]) {
    for (float& each : out) each = gate * 2 + up;
  }
};

// A matrix of small integers, whose rows or columns run in memory. Outside of it are NaN.
template <class Element>
struct Operand {
  int rows, cols;
  bool runs_along_rows;
  long long stride;
  std::vector<typename Element::Storage> data;
  std::size_t first;

  Operand(int rows_, int cols_, bool along_rows, int padding, int salt, int offset = 0)
      : rows(rows_),
        cols(cols_),
        runs_along_rows(along_rows),
        stride((along_rows ? cols : rows) + padding),
        data(static_cast<std::size_t>(stride * (along_rows ? rows : cols) + 64),
             Element::store(std::numeric_limits<float>::quiet_NaN())),
        first(static_cast<std::size_t>(offset)) {
    while (reinterpret_cast<std::uintptr_t>(data.data() + first - offset) % 16 != 0) ++first;
    for (int r = 0; r < rows; ++r) {
      for (int c = 0; c < cols; ++c) {
        data[index(r, c)] = Element::store(static_cast<float>((r * 5 + c * 3 + salt) % 7 - 3));
      }
    }
  }
  std::size_t index(int r, int c) const {
    return first + static_cast<std::size_t>(runs_along_rows ? r * stride + c : c * stride + r);
  }
  float at(int r, int c) const { return Element::load(data[index(r, c)]); }
  abi::Matrix params() {
    const long long row = runs_along_rows ? stride : 1, col = runs_along_rows ? 1 : stride;
    return {data.data() + first, row, col, {}};
  }
};

template <class A, class B>
float sum(const Operand<A>& a, const Operand<B>& b, int m, int n) {
  float total = 0;
  for (int k = 0; k < a.cols; ++k) total += a.at(m, k) * b.at(n, k);
  return total;
}

template <class Config, class Epilogue>
void run(const abi::CopiedGemmParams& p, unsigned grid) {
  device_on_host::launch(grid, kThreads<Config>, [&] { gemm<Config, Epilogue>(p); });
}

inline unsigned tiles(int m, int n, int tile_m = 64, int tile_n = 64) {
  return static_cast<unsigned>((m + tile_m - 1) / tile_m * ((n + tile_n - 1) / tile_n));
}

inline abi::CopiedGemmParams params(abi::Matrix a, abi::Matrix b, int m, int n, int k) {
  abi::CopiedGemmParams p{};
  p.a = a;
  p.b = b;
  p.gemm.m = m;
  p.gemm.n = n;
  p.gemm.k = k;
  p.gemm.raster = 2;
  p.gemm.batch = p.gemm.batch_inner = 1;
  return p;
}

template <class Element, bool kA, bool kB, int kStep, int kAlign>
struct Layout : Small<Element> {
  static constexpr bool kAIsKMajor = kA, kBIsKMajor = kB;
  static constexpr int kStepBytes = kStep, kAlignmentA = kAlign, kAlignmentB = kAlign;
};

}  // namespace epifuse::sm80
