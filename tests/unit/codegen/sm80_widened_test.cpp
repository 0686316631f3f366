// Runs kernels of kernels/sm80 on the host that widen the elements of b to those of a.
#include <gtest/gtest.h>

#include <set>

#include "sm80_on_host.h"

namespace epifuse::sm80 {
namespace {

template <class A, class B, int kAlign = 16>
struct Wider : Layout<A, true, true, 128, kAlign> {
  using ElementB = B;
};

template <class Config>
void expect_right(int m, int n, int k, int padding, int offset = 0) {
  Operand<typename Config::Element> a(m, k, true, padding, 0, offset);
  Operand<ElementOfB<Config>> b(n, k, true, padding, 1, offset),
      second(n, k, true, padding, 3, offset);
  Operand<F32> y(m, n, true, 0, 2);
  abi::CopiedGemmParams p = params(a.params(), b.params(), m, n, k);
  p.second_b = second.params();
  p.gemm.non_tma_stores[0] = y.params();
  run<Config, Bare<F32>>(p, tiles(m, n, Config::kTileM, kResultColumns<Config>));
  for (int r = 0; r < m; ++r) {
    for (int c = 0; c < n; ++c) {
      const float first = sum(a, b, r, c);
      ASSERT_EQ(y.at(r, c), Config::kGated ? first * 2 + sum(a, second, r, c) : first)
          << r << ", " << c;
    }
  }
}

TEST(Sm80Widened, MultipliesBytesAsWhatAIs) {
  expect_right<Wider<Bf16, I8>>(50, 60, 80, 16);
  expect_right<Wider<F16, E4m3>>(70, 60, 144, 16);
  expect_right<Wider<Bf16, E5m2>>(50, 132, 208, 16);
  expect_right<Wider<F16, I8>>(3, 4, 16, 0);
  expect_right<Wider<Bf16, E4m3>>(5, 8, 0, 16);
}

TEST(Sm80Widened, CopiesRowsOffTheBoundariesOf16Bytes) {
  expect_right<Wider<Bf16, I8, 4>>(50, 52, 76, 0, 4);
  expect_right<Wider<F16, E4m3, 1>>(50, 52, 77, 0, 3);
}

template <class Base, int kM, int kN, int kWarpRows, int kWarpColumns>
struct Tiled : Base {
  static constexpr int kTileM = kM, kTileN = kN, kWarpM = kWarpRows, kWarpN = kWarpColumns;
  static constexpr int kStages = 4, kSharedBytes = 4 * (kM * 128 + kN * 64);
};

TEST(Sm80Widened, TakesLargerTiles) {
  expect_right<Tiled<Wider<Bf16, I8>, 64, 128, 32, 64>>(60, 240, 336, 16);
  expect_right<Tiled<Wider<F16, E5m2>, 128, 128, 64, 64>>(140, 120, 176, 16);
}

template <class Base>
struct Gated : Base {
  static constexpr bool kGated = true;
};

TEST(Sm80Widened, MultipliesGates) {
  expect_right<Gated<Wider<Bf16, I8>>>(50, 60, 80, 16);
  expect_right<Gated<Tiled<Wider<F16, E4m3>, 64, 128, 32, 64>>>(60, 100, 144, 16);
}

// Lanes of half a warp read two words each of four rows at once.
TEST(Sm80Widened, ReadsFoursFromAllBanks) {
  using Fours = Stage<Bf16, true, 64, 128, true>;
  for (int first = 0; first < 64; first += 4) {
    for (int unit = 0; unit < 8; unit += 2) {
      std::set<std::uint32_t> banks;
      for (int line = first; line < first + 4; ++line) {
        for (int i = 0; i < 2; ++i) banks.insert(Fours::place(line, unit + i) / 16 % 8);
      }
      ASSERT_EQ(banks.size(), 8U) << first << ", " << unit;
    }
  }
}

}  // namespace
}  // namespace epifuse::sm80
