// Elements of 8 bits as kernels make pairs of 16 bits of them, and put those where wgmma reads
// them.
#include <gtest/gtest.h>

#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <vector>

#include "base/float_types.h"
#include "cuda_on_host.h"
#include "kernels/common/widen.cuh"

namespace epifuse {
namespace {

template <class From_, class To_, DType kFrom, DType kTo>
struct Case {
  using From = From_;
  using To = To_;
  static double narrow(std::uint8_t bits) { return load_element(&bits, kFrom, 0); }
  static double wide(std::uint16_t bits) { return load_element(&bits, kTo, 0); }
};
using Cases = ::testing::Types<
    Case<E4m3, Bf16, DType::e4m3, DType::bf16>, Case<E4m3, F16, DType::e4m3, DType::f16>,
    Case<E5m2, Bf16, DType::e5m2, DType::bf16>, Case<E5m2, F16, DType::e5m2, DType::f16>,
    Case<I8, Bf16, DType::i8, DType::bf16>, Case<I8, F16, DType::i8, DType::f16>>;
template <class Case>
class Widen : public ::testing::Test {};
TYPED_TEST_SUITE(Widen, Cases);

void expect_same(double got, double want, int bits) {
  if (std::isnan(want)) {
    EXPECT_TRUE(std::isnan(got)) << bits;
  } else {
    EXPECT_EQ(std::bit_cast<std::uint64_t>(got), std::bit_cast<std::uint64_t>(want)) << bits;
  }
}

TYPED_TEST(Widen, KeepsEveryPatternInEachPlace) {
  using From = typename TypeParam::From;
  using To = typename TypeParam::To;
  for (int bits = 0; bits < 256; ++bits) {
    std::array<std::uint8_t, 4> bytes{};
    for (int i = 0; i < 4; ++i) {
      bytes[static_cast<std::size_t>(i)] = static_cast<std::uint8_t>(bits * (2 * i + 1) + 85 * i);
    }
    const auto word = std::bit_cast<std::uint32_t>(bytes);
    const std::array<std::uint32_t, 2> pairs{Widened<To, From, 0>::of(word),
                                             Widened<To, From, 1>::of(word)};
    for (std::size_t i = 0; i < 4; ++i) {
      const auto half = static_cast<std::uint16_t>(pairs[i / 2] >> i % 2 * 16);
      expect_same(TypeParam::wide(half), TypeParam::narrow(bytes[i]), bits);
    }
  }
}

// Piece c of 16 bytes of row r lies at c ^ r % 8.
TYPED_TEST(Widen, PutsRowsOf64IntoSwizzledRows) {
  constexpr int kRows = 24, kDepth = 64;
  std::vector<std::uint8_t> narrow(std::size_t{kRows} * kDepth);
  for (std::size_t i = 0; i < narrow.size(); ++i) {
    narrow[i] = static_cast<std::uint8_t>(i * 37 + i / 256);
  }
  std::vector<uint4> from(narrow.size() / sizeof(uint4)), to(2 * from.size());
  std::memcpy(from.data(), narrow.data(), narrow.size());
  for (std::size_t i = 0; i < from.size(); ++i) {
    widen_quarter<typename TypeParam::From, typename TypeParam::To>(
        from[i], reinterpret_cast<unsigned char*>(to.data()), static_cast<int>(i));
  }
  const auto* wide = reinterpret_cast<const std::uint16_t*>(to.data());
  for (int row = 0; row < kRows; ++row) {
    for (int k = 0; k < kDepth; ++k) {
      const int at = row * kDepth + ((k / 8) ^ (row % 8)) * 8 + k % 8;
      const std::uint8_t bits = narrow[static_cast<std::size_t>(row * kDepth + k)];
      expect_same(TypeParam::wide(wide[at]), TypeParam::narrow(bits), bits);
    }
  }
}

}  // namespace
}  // namespace epifuse
