// How the kernels of kernels/sm80 add up: TF32, and K that several CTAs share.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "sm80_on_host.h"

namespace epifuse::sm80 {
namespace {

// Tensor cores would cut off what is behind 10 mantissa bits.
template <class Config>
void test_rounding() {
  constexpr int kM = 20, kN = 12, kK = 24;
  constexpr float kUnit = 0x1p-10f;
  Operand<F32> a(kM, kK, Config::kAIsKMajor, 0, 0), b(kN, kK, Config::kBIsKMajor, 0, 1);
  Operand<F32> y(kM, kN, true, 0, 2);
  for (int k = 0; k < kK; ++k) {
    for (int r = 0; r < kM; ++r) a.data[a.index(r, k)] = -1 - kUnit * static_cast<float>(r) / 8;
    for (int c = 0; c < kN; ++c) b.data[b.index(c, k)] = 1 + kUnit * static_cast<float>(c) / 4;
  }
  abi::CopiedGemmParams p = params(a.params(), b.params(), kM, kN, kK);
  p.gemm.non_tma_stores[0] = y.params();
  run<Config, Bare<F32>>(p, 1);
  const auto nearest = [](int parts, int of) {
    return 1 + kUnit * std::floor(static_cast<float>(parts) / static_cast<float>(of) + 0.5f);
  };
  for (int r = 0; r < kM; ++r) {
    for (int c = 0; c < kN; ++c) {
      float want = 0;
      for (int k = 0; k < kK; ++k) want -= nearest(r, 8) * nearest(c, 4);
      ASSERT_EQ(y.at(r, c), want) << r << ", " << c;
    }
  }
}
TEST(Sm80Sums, RoundsF32ToTheNearestTf32) {
  test_rounding<Layout<F32, true, true, 64, 16>>();
  test_rounding<Layout<F32, false, false, 64, 16>>();
}

template <class Layout, int kParts>
struct Split : Layout {
  static constexpr int kSplitK = kParts;
  static constexpr bool kBatched = true;
};
// Every product has 2 x 2 tiles; the bits are those of sums of parts in the order of K.
template <class Config>
void test_split(int k, std::vector<int> ends) {
  using Element = typename Config::Element;
  constexpr int kM = 70, kN = 72, kProducts = 2, kTiles = 4 * kProducts;
  const int padding = (8 - k % 8) % 8;
  Operand<Element> a(kProducts * kM, k, Config::kAIsKMajor, padding, 0);
  Operand<Element> b(kN, k, Config::kBIsKMajor, padding + 8, 1);
  const float scale = sizeof a.data[0] == 2 ? 0.3f : 1.0f;  // others would be rounded once more
  for (auto& each : a.data) each = Element::store(Element::load(each) * scale);
  Operand<F32> y(kProducts * kM, kN, true, 0, 2);
  abi::CopiedGemmParams p = params(a.params(), b.params(), kM, kN, k);
  p.gemm.batch = p.gemm.batch_inner = kProducts;
  p.a.batch = {0, kM * p.a.row_stride};
  p.gemm.non_tma_stores[0] = y.params();
  p.gemm.non_tma_stores[0].batch = {0, kM * kN};
  std::vector<float4> sums(kTiles * Config::kSplitK * 64 * 64 / 4 + 1, float4{77, 77, 77, 77});
  std::vector<int> arrivals(kTiles + 1);
  p.split = {sums.data(), arrivals.data()};
  run<Config, Bare<F32>>(p, kTiles * Config::kSplitK);
  for (int i = 0; i < kTiles; ++i) EXPECT_EQ(arrivals[i], Config::kSplitK);
  EXPECT_EQ(arrivals[kTiles], 0);
  EXPECT_EQ(sums.back().x, 77) << "memory behind its own";
  for (int r = 0; r < kProducts * kM; ++r) {
    for (int c = 0; c < kN; ++c) {
      float want = 0;
      int from = 0;
      for (const int end : ends) {
        float part = 0;
        for (; from < std::min(end, k); ++from) part += a.at(r, from) * b.at(c, from);
        want += part;
      }
      ASSERT_EQ(y.at(r, c), want) << r << ", " << c;
    }
  }
}
// Parts of integers are added as integers: sums beyond 24 bits are rounded once, at the end.
template <class Layout>
struct OfIntegers : Layout {
  static constexpr bool kAddsIntegers = true;
};
TEST(Sm80Sums, SplitsKOfIntegers) {
  using Config = OfIntegers<Split<Layout<I8, true, true, 64, 16>, 4>>;
  constexpr int kM = 3, kN = 8, kK = 4096;
  Operand<I8> a(2 * kM, kK, true, 0, 0), b(kN, kK, true, 0, 1);
  for (int k = 0; k < kK; ++k) {
    for (int r = 0; r < 2 * kM; ++r) a.data[a.index(r, k)] = I8::store(127.0f - (k + r) % 2);
    for (int c = 0; c < kN; ++c) b.data[b.index(c, k)] = I8::store(127.0f - (k * c) % 3);
  }
  Operand<F32> y(2 * kM, kN, true, 0, 2);
  abi::CopiedGemmParams p = params(a.params(), b.params(), kM, kN, kK);
  p.gemm.batch = p.gemm.batch_inner = 2;
  p.a.batch = {0, kM * p.a.row_stride};
  p.gemm.non_tma_stores[0] = y.params();
  p.gemm.non_tma_stores[0].batch = {0, kM * kN};
  std::vector<float4> sums(2 * Config::kSplitK * 64 * 64 / 4);
  std::vector<int> arrivals(2);
  p.split = {sums.data(), arrivals.data()};
  run<Config, Bare<F32>>(p, 2 * Config::kSplitK);
  for (int r = 0; r < 2 * kM; ++r) {
    for (int c = 0; c < kN; ++c) {
      std::int64_t want = 0;
      for (int k = 0; k < kK; ++k) want += static_cast<std::int64_t>(a.at(r, k) * b.at(c, k));
      ASSERT_GT(want, 1 << 24);
      ASSERT_EQ(y.at(r, c), static_cast<float>(want)) << r << ", " << c;
    }
  }
}

TEST(Sm80Sums, SplitsK) {
  test_split<Split<Layout<Bf16, true, true, 64, 16>, 2>>(150, {64, 160});
  test_split<Split<Layout<Bf16, true, false, 64, 8>, 4>>(136, {32, 64, 96, 160});
  test_split<Split<Layout<Bf16, false, false, 64, 4>, 3>>(64, {0, 32, 64});  // some have none
  test_split<Split<Layout<F32, true, false, 128, 16>, 2>>(100, {64, 128});
  test_split<Split<Layout<E4m3, true, false, 64, 8>, 2>>(152, {64, 192});
  test_split<Split<Layout<Bf16, true, true, 64, 16>, 2>>(0, {0, 0});
}

}  // namespace
}  // namespace epifuse::sm80
