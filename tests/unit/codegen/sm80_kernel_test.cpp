// Runs the kernels of kernels/sm80 on the host, lane by lane, against sums taken here.
#include <gtest/gtest.h>

#include <cstdint>
#include <set>
#include <type_traits>
#include <vector>

#include "sm80_on_host.h"

namespace epifuse::sm80 {
namespace {

// Ragged in all sizes, with every kind of operand, rows `padding` elements longer than they need.
template <class Config>
void test_everything(int m, int n, int k, int padding, int offset = 0) {
  using Element = typename Config::Element;
  using Epilogue = Everything<Element>;
  Operand<Element> a(m, k, Config::kAIsKMajor, padding, 0, offset),
      tile(m, n, true, (4 - n % 4) % 4, 2), y(m, n, true, (4 - n % 4) % 4, 3);
  Operand<ElementOfB<Config>> b(n, k, Config::kBIsKMajor, padding, 1, offset);
  Operand<F32> z(m, n, true, (4 - n % 4) % 4, 4), cols(1, m, true, 0, 5);
  Operand<Bf16> rows(1, n, true, 0, 6);
  abi::CopiedGemmParams p = params(a.params(), b.params(), m, n, k);
  float scalar = 11;
  p.gemm.parameters[0] = 2;
  p.gemm.scalars[0] = {&scalar, 0, {}};
  p.gemm.rows[0] = {rows.params().data, 1, {}};
  p.gemm.cols[0] = {cols.params().data, 1, {}};
  p.gemm.plain_tiles[0] = tile.params();
  p.gemm.non_tma_stores[0] = y.params();
  p.gemm.non_tma_stores[1] = z.params();
  const unsigned all = tiles(m, n, Config::kTileM, Config::kTileN);
  run<Config, Epilogue>(p, Config::kPersistent ? (all + 2) / 3 : all);
  for (int r = 0; r < m; ++r) {
    for (int c = 0; c < n; ++c) {
      const float acc = sum(a, b, r, c);
      const float want = Epilogue::value(acc, rows.at(0, c), cols.at(0, r), tile.at(r, c));
      ASSERT_EQ(y.at(r, c), Element::load(Element::store(want))) << r << ", " << c;
      ASSERT_EQ(z.at(r, c), acc * 2 + 11) << r << ", " << c;
    }
  }
}

TEST(Sm80Kernel, MultipliesOperandsInEveryLayout) {
  test_everything<Layout<Bf16, true, true, 64, 16>>(50, 60, 40, 8);
  test_everything<Layout<Bf16, true, false, 64, 16>>(40, 56, 40, 8);
  test_everything<Layout<F16, false, true, 64, 16>>(56, 48, 40, 8);
  test_everything<Layout<Bf16, false, false, 64, 16>>(72, 56, 37, 8);
}

TEST(Sm80Kernel, MultipliesStepsOf128Bytes) {
  test_everything<Layout<F16, true, true, 128, 16>>(50, 60, 88, 8);
  test_everything<Layout<Bf16, true, false, 128, 16>>(54, 54, 70, 10);
  test_everything<Layout<Bf16, false, false, 128, 16>>(56, 56, 70, 8);
}

TEST(Sm80Kernel, MultipliesF32InEveryLayout) {
  test_everything<Layout<F32, true, true, 64, 16>>(50, 50, 20, 4);
  test_everything<Layout<F32, true, false, 128, 16>>(52, 52, 36, 4);
  test_everything<Layout<F32, false, true, 64, 16>>(52, 52, 20, 4);
  test_everything<Layout<F32, false, false, 128, 16>>(52, 52, 37, 4);
}

TEST(Sm80Kernel, CopiesRowsOffTheBoundariesOf16Bytes) {
  test_everything<Layout<Bf16, true, true, 64, 8>>(50, 50, 40, 4, 4);
  test_everything<Layout<Bf16, true, false, 64, 4>>(50, 49, 39, 1, 2);
  test_everything<Layout<Bf16, true, true, 64, 2>>(50, 50, 39, 2, 1);
  test_everything<Layout<F16, false, false, 128, 2>>(53, 51, 39, 0);
  test_everything<Layout<F32, true, false, 64, 4>>(50, 51, 19, 0, 3);
}

template <class A, class B, bool kA, bool kB, int kStep, int kAlign>
struct Bytes : Layout<A, kA, kB, kStep, kAlign> {
  using ElementB = B;
};
template <class Layout>
struct Promoted : Layout {
  static constexpr bool kPromotesSums = true;
};

// Rows that run along M or N are 64, 128 and 256 bytes in stages.
template <class Layout, int kM, int kN>
struct Tile64 : Layout {
  static constexpr int kTileM = kM, kTileN = kN, kWarpM = 64, kWarpN = 64, kSharedBytes = 98304;
};

TEST(Sm80Kernel, MultipliesBytesInEveryLayout) {
  test_everything<Bytes<E4m3, E4m3, true, true, 64, 16>>(50, 60, 80, 16);
  test_everything<Bytes<E4m3, E5m2, true, true, 128, 16>>(50, 60, 144, 16);
  test_everything<Bytes<E5m2, E4m3, true, false, 64, 16>>(40, 64, 80, 16);
  test_everything<Bytes<E4m3, E4m3, false, true, 64, 16>>(64, 48, 80, 16);
  test_everything<Bytes<E5m2, E5m2, false, false, 128, 16>>(80, 64, 70, 16);
  test_everything<Tile64<Bytes<E4m3, E4m3, false, false, 64, 16>, 128, 128>>(112, 128, 70, 16);
  test_everything<Tile64<Bytes<E4m3, E4m3, true, false, 64, 16>, 64, 256>>(50, 240, 80, 16);
  test_everything<Tile64<Bytes<E4m3, E4m3, false, true, 64, 16>, 256, 64>>(240, 50, 80, 16);
}

template <class Layout>
struct OfIntegers : Layout {
  static constexpr bool kAddsIntegers = true;
};

TEST(Sm80Kernel, MultipliesIntegersInEveryLayout) {
  test_everything<OfIntegers<Layout<I8, true, true, 64, 16>>>(50, 60, 80, 16);
  test_everything<OfIntegers<Layout<I8, true, false, 128, 16>>>(40, 64, 144, 16);
  test_everything<OfIntegers<Layout<I8, false, true, 64, 16>>>(64, 48, 80, 16);
  test_everything<OfIntegers<Layout<I8, false, false, 128, 16>>>(80, 64, 70, 16);
  test_everything<OfIntegers<Layout<I8, true, true, 64, 1>>>(50, 50, 78, 1, 3);
}

TEST(Sm80Kernel, CopiesRowsOfBytesOffTheBoundariesOf16Bytes) {
  test_everything<Bytes<E4m3, E5m2, true, true, 64, 8>>(50, 50, 80, 8, 8);
  test_everything<Bytes<E4m3, E4m3, true, false, 64, 4>>(52, 54, 74, 2, 4);
  test_everything<Bytes<E4m3, E4m3, true, true, 64, 2>>(50, 50, 77, 1, 2);
  test_everything<Bytes<E4m3, E4m3, true, true, 64, 1>>(50, 50, 78, 1, 3);
  test_everything<Bytes<E4m3, E4m3, false, false, 128, 1>>(53, 51, 71, 0, 1);
}

// Of eight lines one unit each, which a matrix is made of: no two of them in the same banks.
template <class Stage>
void expect_all_banks(std::vector<int> lines) {
  for (int first = 0; first < Stage::kLines; first += Stage::kHasBytesAcross ? 16 : 8) {
    for (int unit = 0; unit < Stage::kUnitsOfLine; ++unit) {
      std::set<std::uint32_t> banks;
      for (const int line : lines) banks.insert(Stage::place(first + line, unit) / 16 % 8);
      ASSERT_EQ(banks.size(), 8U) << first << ", " << unit;
    }
  }
}
TEST(Sm80Kernel, ReadsMatricesFromAllBanks) {
  for (const int second : {0, 2}) {  // lines of the first matrix of K, and of the second
    const std::vector<int> lines{second,     second + 1, second + 4,  second + 5,
                                 second + 8, second + 9, second + 12, second + 13};
    expect_all_banks<Stage<E4m3, false, 64, 64>>(lines);
    expect_all_banks<Stage<E4m3, false, 128, 64>>(lines);
    expect_all_banks<Stage<E5m2, false, 256, 128>>(lines);
  }
  const std::vector<int> lines{0, 1, 2, 3, 4, 5, 6, 7};
  expect_all_banks<Stage<E4m3, true, 128, 64>>(lines);
  expect_all_banks<Stage<E4m3, true, 64, 128>>(lines);
  expect_all_banks<Stage<Bf16, false, 128, 64>>(lines);
}

// What each instruction adds is exact here: sums are the same.
TEST(Sm80Kernel, AddsSumsOfInstructionsInFloat32) {
  test_everything<Promoted<Bytes<E4m3, E5m2, true, true, 64, 16>>>(50, 60, 144, 16);
}

struct Wide : Layout<Bf16, true, true, 64, 16> {
  static constexpr int kTileN = 128, kWarpN = 64, kStages = 4;
};
struct High : Layout<Bf16, false, false, 64, 16> {
  static constexpr int kTileM = 128, kTileN = 128, kWarpM = 64, kWarpN = 64, kSharedBytes = 98304;
};
TEST(Sm80Kernel, MultipliesInLargerWarpTiles) { test_everything<High>(104, 120, 40, 8); }

// Copies may land at any time between the two.
TEST(Sm80Kernel, WaitsForCopiesAndForThoseThatReadBefore) {
  for (const bool late : {false, true}) {
    device_on_host::copies_land_late = late;
    test_everything<Wide>(40, 150, 200, 8);
  }
}

struct Persistent : Layout<Bf16, true, false, 64, 16> {
  static constexpr bool kPersistent = true;
};
struct DeepPersistent : Layout<F16, false, true, 128, 4> {
  static constexpr bool kPersistent = true;
  static constexpr int kStages = 4, kSharedBytes = 98304;
};
// Also with fewer steps than stages, when copies are several tiles ahead.
TEST(Sm80Kernel, TakesOneTileAfterAnother) {
  for (const bool late : {false, true}) {
    device_on_host::copies_land_late = late;
    test_everything<Persistent>(150, 200, 200, 8);
    test_everything<Persistent>(270, 136, 24, 8);
    test_everything<Persistent>(100, 64, 0, 8);
    test_everything<DeepPersistent>(100, 130, 70, 2);
  }
}

TEST(Sm80Kernel, GivesZerosWhereKIsEmpty) {
  test_everything<Layout<Bf16, true, true, 64, 16>>(5, 9, 0, 8);
}

template <bool kB, bool kAdjacent, class Element = Bf16>
struct Gates : Layout<Element, true, kB, 64, 16> {
  static constexpr bool kGated = true, kAdjacentGates = kAdjacent;
};

// The lines of a thread are of both operands; of others all are of one.
struct DeepGates : Gates<true, false> {
  static constexpr int kStepBytes = 128, kTileN = 128, kSharedBytes = 3 * (64 + 128) * 128;
  static constexpr bool kIsLean = true;
};

// `b` has the columns of both, the second's from `second` on, `step` apart.
template <class Config>
void test_gates(int second, int step) {
  using Element = typename Config::Element;
  constexpr int kM = 50, kN = 48, kK = 48;
  Operand<Element> a(kM, kK, true, 16, 0), b(2 * kN, kK, Config::kBIsKMajor, 16, 1);
  Operand<Bf16> y(kM, kN, true, 0, 2);
  abi::CopiedGemmParams p = params(a.params(), b.params(), kM, kN, kK);
  p.second_b = p.b;
  if constexpr (!Config::kAdjacentGates) {
    p.b.row_stride *= step;
    p.second_b.row_stride *= step;
  }
  p.second_b.data = b.data.data() + b.index(second, 0);
  p.gemm.non_tma_stores[0] = y.params();
  run<Config, Bare<Bf16>>(p, tiles(kM, kN, Config::kTileM, kResultColumns<Config>));
  for (int r = 0; r < kM; ++r) {
    for (int c = 0; c < kN; ++c) {
      const float want = 2 * sum(a, b, r, c * step) + sum(a, b, r, second + c * step);
      ASSERT_EQ(y.at(r, c), Bf16::load(Bf16::store(want))) << r << ", " << c;
    }
  }
}

TEST(Sm80Kernel, MultipliesGatesInEveryLayout) {
  test_gates<Gates<true, false>>(48, 1);
  test_gates<Gates<true, false>>(1, 2);
  test_gates<Gates<false, false>>(48, 1);
  test_gates<Gates<false, true>>(1, 2);
  test_gates<DeepGates>(48, 1);
  test_gates<Gates<true, false, E4m3>>(48, 1);
  test_gates<Gates<true, false, E4m3>>(1, 2);
  test_gates<Gates<false, false, E4m3>>(48, 1);
  test_gates<Gates<false, true, E4m3>>(1, 2);
}

struct Batches : Layout<Bf16, true, true, 64, 16> {
  static constexpr bool kBatched = true;
};
TEST(Sm80Kernel, MultipliesBatchesOfTwoDims) {
  constexpr int kM = 10, kN = 12, kK = 16;
  Operand<Bf16> a(6 * kM, kK, true, 0, 0), b(2 * kN, kK, true, 0, 1), y(6 * kM, kN, true, 0, 2);
  abi::CopiedGemmParams p = params(a.params(), b.params(), kM, kN, kK);
  p.gemm.batch = 6;
  p.gemm.batch_inner = 3;
  p.a.batch = {3 * kM * kK, kM * kK};
  p.b.batch = {kN * kK, 0};
  p.gemm.non_tma_stores[0] = y.params();
  p.gemm.non_tma_stores[0].batch = {3 * kM * kN, kM * kN};
  run<Batches, Bare<Bf16>>(p, 6);
  for (int r = 0; r < 6 * kM; ++r) {
    for (int c = 0; c < kN; ++c) {
      const float want = sum(a, b, r, r / (3 * kM) * kN + c);
      ASSERT_EQ(y.at(r, c), Bf16::load(Bf16::store(want))) << r << ", " << c;
    }
  }
}

template <class Element>
struct Groups : Layout<Element, true, true, 64, 16> {
  static constexpr bool kBatched = true, kGrouped = true, kGathersA = true;
  static constexpr unsigned kIndexedStores = 1;
};
// Rows are looked up, groups have any number of them, and results are put where an index says.
template <class Element>
void test_gathered_groups() {
  constexpr int kRows = 150, kN = 40, kK = 22, kGroups = 4;
  const int ends[kGroups] = {70, 70, 75, 150};
  std::vector<long long> from, to;
  for (int i = 0; i < kRows; ++i) {
    from.push_back(i % 2 == 0 ? (i * 7) % 30 : (i * 7) % 30 - 30);
    to.push_back(kRows - 1 - i);
  }
  Operand<Element> a(30, kK, true, 10, 0), b(kGroups * kN, kK, true, 10, 1);
  Operand<Bf16> y(kRows, kN, true, 0, 2);
  abi::CopiedGemmParams p = params(a.params(), b.params(), kRows, kN, kK);
  p.b.batch = {0, kN * b.stride};
  p.gemm.groups = {ends, 1, kGroups, 0};
  p.gemm.rows_of_a = {from.data(), 1, 30, 1};
  p.gemm.rows_of_stores[0] = {to.data(), 1, kRows, 1};
  p.gemm.non_tma_stores[0] = y.params();
  run<Groups<Element>, Bare<Bf16>>(p, kRows / 64 + kGroups);
  for (int r = 0; r < kRows; ++r) {
    const int group = r < 70 ? 0 : r < 75 ? 2 : 3;
    for (int c = 0; c < kN; ++c) {
      const float want = sum(a, b, (r * 7) % 30, group * kN + c);
      ASSERT_EQ(y.at(kRows - 1 - r, c), Bf16::load(Bf16::store(want))) << r << ", " << c;
    }
  }
}
TEST(Sm80Kernel, MultipliesGroupsOfRowsThatAreLookedUp) {
  test_gathered_groups<Bf16>();
  test_gathered_groups<E4m3>();
}

template <class Layout>
struct GroupsOfK : Layout {
  static constexpr bool kBatched = true, kKGrouped = true;
};
template <class Layout>
struct PersistentLayout : Layout {
  static constexpr bool kPersistent = true;
};
// Each product of the batch sums over a part of K, which ends anywhere; rows of no group are NaN.
template <class Config>
void test_groups_of_k(bool late) {
  constexpr int kM = 72, kN = 40, kK = 300, kGroups = 9, kAll = 310;
  const int ends[kGroups] = {0, 1, 32, 64, 64, 65, 161, 299, 300};
  Operand<Bf16> a(kM, kAll, Config::kAIsKMajor, 8, 0), b(kN, kAll, Config::kBIsKMajor, 8, 1);
  Operand<Bf16> y(kGroups * kM, kN, true, 0, 2);
  for (int k = kK; k < kAll; ++k) {
    for (int r = 0; r < kM; ++r) a.data[a.index(r, k)] = Bf16::store(NAN);
    for (int c = 0; c < kN; ++c) b.data[b.index(c, k)] = Bf16::store(NAN);
  }
  abi::CopiedGemmParams p = params(a.params(), b.params(), kM, kN, kAll);
  p.gemm.batch = p.gemm.batch_inner = kGroups;
  p.gemm.groups = {ends, 1, kGroups, 0};
  p.gemm.non_tma_stores[0] = y.params();
  p.gemm.non_tma_stores[0].batch = {0, kM * kN};
  device_on_host::copies_land_late = late;
  run<Config, Bare<Bf16>>(p, Config::kPersistent ? 3 : 2 * kGroups);
  for (int g = 0; g < kGroups; ++g) {
    for (int r = 0; r < kM; ++r) {
      for (int c = 0; c < kN; ++c) {
        float want = 0;
        for (int k = g == 0 ? 0 : ends[g - 1]; k < ends[g]; ++k) want += a.at(r, k) * b.at(c, k);
        ASSERT_EQ(y.at(g * kM + r, c), Bf16::load(Bf16::store(want)))
            << "group " << g << ": " << r << ", " << c;
      }
    }
  }
}
TEST(Sm80Kernel, SumsOverGroupsOfK) {
  for (const bool late : {false, true}) {
    test_groups_of_k<GroupsOfK<Layout<Bf16, false, false, 64, 16>>>(late);
    test_groups_of_k<GroupsOfK<Layout<Bf16, true, true, 128, 2>>>(late);
    test_groups_of_k<GroupsOfK<PersistentLayout<Layout<Bf16, false, false, 64, 16>>>>(late);
    test_groups_of_k<GroupsOfK<PersistentLayout<Layout<Bf16, false, true, 128, 2>>>>(late);
  }
}

struct Reduces : Layout<Bf16, true, true, 64, 16> {
  using RowReductions = Reductions<Reduce::sum, Reduce::max>;
  using ColReductions = Reductions<Reduce::max, Reduce::sum>;
};
TEST(Sm80Kernel, LeavesPartsOfReductions) {
  constexpr int kM = 70, kN = 72, kK = 16, kParts = 3;  // of warps: 32 x 32
  Operand<Bf16> a(kM, kK, true, 0, 0), b(kN, kK, true, 0, 1);
  Operand<Bf16> y(kM, kN, true, 0, 2);
  std::vector<float> left(4 * kParts * 80, -77.f);
  abi::CopiedGemmParams p = params(a.params(), b.params(), kM, kN, kK);
  for (int i = 0; i < 4; ++i) p.gemm.partials[i] = {left.data() + i * kParts * 80, 80, {}};
  p.gemm.non_tma_stores[0] = y.params();
  run<Reduces, Bare<Bf16, 5>>(p, tiles(kM, kN));
  const auto at = [&](int which, int part, int i) {
    return left[static_cast<std::size_t>((which * kParts + part) * 80 + i)];
  };
  for (int part = 0; part < kParts; ++part) {
    for (int r = 0; r < kM; ++r) {
      float total = 0, most = -1000;
      for (int c = part * 32; c < std::min(kN, part * 32 + 32); ++c) {
        total += sum(a, b, r, c);
        most = std::max(most, sum(a, b, r, c));
      }
      ASSERT_EQ(at(0, part, r), total);
      ASSERT_EQ(at(1, part, r), most);
    }
    for (int c = 0; c < kN; ++c) {
      float total = 0, most = -1000;
      for (int r = part * 32; r < std::min(kM, part * 32 + 32); ++r) {
        total += sum(a, b, r, c);
        most = std::max(most, sum(a, b, r, c));
      }
      ASSERT_EQ(at(2, part, c), most);
      ASSERT_EQ(at(3, part, c), total);
    }
  }
  EXPECT_EQ(at(0, 0, kM), -77.f);
  EXPECT_EQ(at(2, 2, kN), -77.f);
}

struct Plain : Layout<Bf16, true, true, 64, 16> {
  static constexpr unsigned kNonTmaStores = 1;
};
TEST(Sm80Kernel, WritesResultsThatNoVectorCan) {
  constexpr int kM = 20, kN = 35, kK = 16;
  Operand<Bf16> a(kM, kK, true, 0, 0), b(kN, kK, true, 0, 1), y(kM, kN, false, 1, 2);
  abi::CopiedGemmParams p = params(a.params(), b.params(), kM, kN, kK);
  p.gemm.non_tma_stores[0] = y.params();
  run<Plain, Bare<Bf16>>(p, tiles(kM, kN));
  for (int r = 0; r < kM; ++r) {
    for (int c = 0; c < kN; ++c) ASSERT_EQ(y.at(r, c), sum(a, b, r, c));
  }
}

}  // namespace
}  // namespace epifuse::sm80
