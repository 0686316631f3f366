// Runs kernels/sm90/row_loads.cuh on the host: what each lane of a warp reads of a chunk.
#include <gtest/gtest.h>

#include <cstring>
#include <vector>

#include "cuda_on_host.h"
#include "kernels/common/element.cuh"
#include "kernels/common/operands.cuh"
#include "kernels/sm90/row_loads.cuh"

namespace epifuse::sm90 {
namespace {

template <unsigned kPaired, unsigned kIndexed = 0, int kN = 128>
struct TestConfig : UsualConfig {
  using Scheduler = BatchOfProducts;
  static constexpr int kTileN = kN;
  static constexpr unsigned kNonTmaLoads = 7, kRowLoads = 6, kPairedLoads = kPaired;
  static constexpr unsigned kIndexedTiles = kIndexed;
};
struct TestEpilogue {
  using Tiles = Types<Bool, Bf16, F32>;  // the first is read alone
};

constexpr int kTable = 40, kStride = 202, kProduct = 1, kFirst = 2;  // rows, in elements

template <class Storage>
struct Matrix {
  std::vector<Storage> memory;
  Matrix() : memory(kFirst + (kProduct + 2) * kTable * kStride) {
    for (std::size_t i = 0; i < memory.size(); ++i) memory[i] = static_cast<Storage>(1 + i % 60000);
  }
  abi::Matrix params() { return {memory.data() + kFirst, kStride, 1, {0, kTable * kStride}}; }
  Storage at(int row, int column) const {
    return memory[static_cast<std::size_t>(kFirst + (kProduct * kTable + row) * kStride + column)];
  }
};

struct Where {
  int m, n, row, column;
  bool is_cut = false;
  std::vector<int> index = {};
};

template <class Config>
void test(const Where& where) {
  SCOPED_TRACE(::testing::Message()
               << where.m << " x " << where.n << " at " << where.row << ", " << where.column);
  Matrix<std::uint16_t> narrow;
  Matrix<std::uint32_t> wide;
  abi::GemmParams p{};
  p.m = where.m;
  p.n = where.n;
  p.plain_tiles[1] = narrow.params();
  p.plain_tiles[2] = wide.params();
  p.rows_of_tiles[1] = p.rows_of_tiles[2] = {where.index.data(), 1, kTable, 0};
  const Chunk chunk{where.row, where.column, 0, {kProduct, 0}, where.is_cut};
  const int columns =
      std::min(where.is_cut ? kCutColumns<Config> : kChunkColumns, where.n - where.column);
  const auto from = [&](int row) {
    return Config::kIndexedTiles != 0 ? where.index[static_cast<std::size_t>(row)] : row;
  };
  for (int lane = 0; lane < 32; ++lane) {
    RowLoads<Config, TestEpilogue> loads;
    loads.begin(p, chunk, lane);
    for (int g = 0; g < kGroups; ++g) {
      std::uint32_t of_narrow[4], of_wide[8];
      loads.template load<Bf16>(1, g, of_narrow);
      loads.template load<F32>(2, g, of_wide);
      for (int at = 0; at < 8; ++at) {  // block of 8 columns, half of the rows, column of the pair
        const int q = at / 4, half = at / 2 % 2, e = at % 2;
        const int row = where.row + lane / 4 + half * 8;
        const int column = g * 16 + q * 8 + lane % 4 * 2 + e;
        const bool exists = row < where.m && column < columns;
        const std::uint32_t want_narrow = exists ? narrow.at(from(row), where.column + column) : 0;
        const std::uint32_t want_wide = exists ? wide.at(from(row), where.column + column) : 0;
        ASSERT_EQ(of_narrow[q * 2 + half] >> (16 * e) & 0xffff, want_narrow)
            << row << " " << column;
        ASSERT_EQ(of_wide[at], want_wide) << row << " " << column;
      }
    }
  }
}

template <unsigned kPaired>
void test_all() {
  using Usual = TestConfig<kPaired>;
  test<Usual>({40, 200, 16, 64});                             // all of it
  test<Usual>({40, 128 + 22, 16, 128});                       // the last columns
  test<Usual>({16 + 5, 200, 16, 0});                          // the last rows
  test<Usual>({16 + 9, 64 + 2, 16, 64});                      // of both
  test<Usual>({16, 200, 16, 0});                              // no row
  test<Usual>({40, 64, 0, 128});                              // no column
  test<TestConfig<kPaired, 0, 112>>({40, 200, 0, 64, true});  // cut at 48
  std::vector<int> index(40);
  for (int i = 0; i < 40; ++i) index[static_cast<std::size_t>(i)] = (i * 7 + 3) % kTable;
  test<TestConfig<kPaired, 6>>({40, 200, 16, 64, false, index});
  test<TestConfig<kPaired, 6>>({16 + 9, 128 + 22, 16, 128, false, index});
}

TEST(Sm90RowLoads, BringWhatIsThereToWhereStagedOperandsCome) {
  test_all<6>();
  test_all<2>();
  test_all<0>();
}

// Of an odd number of columns the last one has no neighbour.
TEST(Sm90RowLoads, ReadNoPairThatARowCuts) {
  test<TestConfig<0>>({40, 128 + 21, 16, 128});
  test<TestConfig<0>>({40, 64 + 1, 16, 64});
}

}  // namespace
}  // namespace epifuse::sm90
