// Block scales of the kernels of kernels/sm80, on the host: powers of two, so that sums are exact.
#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "sm80_on_host.h"

namespace epifuse::sm80 {
namespace {

template <class A, class B, bool kA, bool kB, int kStep>
struct Scaled : Layout<A, kA, kB, kStep, 16> {
  using ElementB = B;
  static constexpr bool kPromotesSums = true, kHasBlockScales = true;
};

template <class Layout>
struct ByWarp : Layout {
  static constexpr bool kScalesByWarp = true;
};

// A scale for each block of K of `each` rows; further ones are NaN.
struct Scales {
  int rows, blocks, each;
  std::vector<float> data;
  Scales(int rows_, int k, int each_, int salt)
      : rows((rows_ + each_ - 1) / each_), blocks((k + 127) / 128), each(each_) {
    data.assign(static_cast<std::size_t>(rows * blocks + 8), std::nanf(""));
    for (int r = 0; r < rows; ++r) {
      for (int i = 0; i < blocks; ++i) {
        data[index(r, i)] = std::ldexp(1.0f, (r * 3 + i * 2 + salt) % 5 - 2);
      }
    }
  }
  std::size_t index(int r, int i) const { return static_cast<std::size_t>(i * rows + r); }
  float at(int row, int k) const { return data[index(row / each, k / 128)]; }
  abi::BlockScales params() const {
    return {data.data(), 1, rows, {}, 0, 1, each == 128 ? 7 : 0, blocks};
  }
};

template <class A, class B>
float scaled_sum(const Operand<A>& a, const Operand<B>& b, const Scales& of_a, const Scales& of_b,
                 int m, int n) {
  float total = 0;
  for (int k = 0; k < a.cols; ++k) {
    total += a.at(m, k) * of_a.at(m, k) * b.at(n, k) * of_b.at(n, k);
  }
  return total;
}

template <class Config>
void test_scales(int m, int n, int k, int each_of_b, int each_of_a = 1) {
  using Element = typename Config::Element;
  Operand<Element> a(m, k, Config::kAIsKMajor, 16, 0);
  Operand<ElementOfB<Config>> b(n, k, Config::kBIsKMajor, 16, 1);
  Operand<F32> y(m, n, true, (4 - n % 4) % 4, 2);
  const Scales of_a(m, k, each_of_a, 0), of_b(n, k, each_of_b, 1);
  abi::CopiedGemmParams p = params(a.params(), b.params(), m, n, k);
  p.gemm.a_scales = of_a.params();
  p.gemm.b_scales = of_b.params();
  p.gemm.non_tma_stores[0] = y.params();
  const unsigned all = tiles(m, n, Config::kTileM, Config::kTileN);
  run<Config, Bare<F32>>(p, Config::kPersistent ? (all + 2) / 3 : all);
  for (int r = 0; r < m; ++r) {
    for (int c = 0; c < n; ++c) {
      ASSERT_EQ(y.at(r, c), scaled_sum(a, b, of_a, of_b, r, c)) << r << ", " << c;
    }
  }
}

TEST(Sm80BlockScales, AreOfRowsAndOfBlocks) {
  test_scales<Scaled<E4m3, E4m3, true, true, 64>>(40, 60, 144, 1);
  test_scales<Scaled<E4m3, E5m2, true, true, 64>>(40, 140, 272, 128);
  test_scales<Scaled<E4m3, E4m3, true, true, 128>>(40, 140, 272, 128);
  test_scales<Scaled<E5m2, E4m3, true, true, 128>>(140, 40, 144, 1, 128);  // of exchanged operands
}

TEST(Sm80BlockScales, AreOneForTheColumnsOfAWarp) {
  test_scales<ByWarp<Scaled<E4m3, E4m3, true, true, 128>>>(40, 140, 272, 128);
  test_scales<ByWarp<Scaled<E4m3, E5m2, true, false, 64>>>(40, 144, 144, 128);
}

TEST(Sm80BlockScales, FollowRowsWhereTheseStandByTurns) {
  test_scales<Scaled<E4m3, E4m3, true, false, 64>>(40, 64, 272, 1);
  test_scales<Scaled<E4m3, E4m3, false, true, 64>>(64, 48, 144, 1);
  test_scales<Scaled<E4m3, E4m3, false, false, 128>>(80, 64, 270, 1);
}

struct Persistent : Scaled<E4m3, E4m3, true, true, 64> {
  static constexpr bool kPersistent = true;
};
TEST(Sm80BlockScales, AreThoseOfEachTile) {
  test_scales<Persistent>(150, 200, 272, 128);
  test_scales<Persistent>(270, 136, 80, 1);
  test_scales<Persistent>(70, 40, 0, 1);
}

// Columns of two products, each of which has scales of its own.
struct Gated : Scaled<E4m3, E4m3, true, true, 64> {
  static constexpr bool kGated = true;
};
template <class Config, int kN>
void test_gate() {
  constexpr int kM = 50, kK = 272;
  Operand<E4m3> a(kM, kK, true, 16, 0), b(2 * kN, kK, true, 16, 1);
  Operand<F32> y(kM, kN, true, 0, 2);
  const Scales of_a(kM, kK, 1, 0), of_b(2 * kN, kK, 128, 1);
  abi::CopiedGemmParams p = params(a.params(), b.params(), kM, kN, kK);
  p.second_b = b.params();
  p.second_b.data = b.data.data() + b.index(kN, 0);
  p.gemm.a_scales = of_a.params();
  p.gemm.b_scales = p.gemm.second_b_scales = of_b.params();
  p.gemm.second_b_scales.first = kN;
  p.gemm.non_tma_stores[0] = y.params();
  run<Config, Bare<F32>>(p, tiles(kM, kN, 64, 32));
  for (int r = 0; r < kM; ++r) {
    for (int c = 0; c < kN; ++c) {
      const float gate = scaled_sum(a, b, of_a, of_b, r, c);
      ASSERT_EQ(y.at(r, c), gate * 2 + scaled_sum(a, b, of_a, of_b, r, kN + c)) << r << ", " << c;
    }
  }
}
TEST(Sm80BlockScales, AreOfEitherProductOfAGate) {
  test_gate<Gated, 140>();
  test_gate<ByWarp<Gated>, 144>();
}

}  // namespace
}  // namespace epifuse::sm80
