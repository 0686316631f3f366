// Runs kernels/sm90/row_copies.cuh and sector_copies.cuh on the host: a warp's rows from staging to
// memory.
#include <gtest/gtest.h>

#include <cstring>
#include <limits>
#include <vector>

#include "cuda_on_host.h"

// Within the one warp there is.
inline int __shfl_sync(unsigned, int value, int lane) {
  return std::bit_cast<int>(
      epifuse::device_on_host::exchange(std::bit_cast<float>(value), static_cast<unsigned>(lane)));
}

#include "kernels/common/element.cuh"
#include "kernels/common/operands.cuh"
#include "kernels/sm90/row_copies.cuh"

namespace epifuse::sm90 {
namespace {

template <int kAtOnce, unsigned kIndexed = 0, int kN = 128>
struct TestConfig : UsualConfig {
  using Scheduler = BatchOfProducts;
  static constexpr int kTileN = kN;
  static constexpr unsigned kNonTmaStores = 3, kCopiedStores = 2, kIndexedStores = kIndexed;
  static constexpr int kCopiedAtOnce = kAtOnce;
};

template <class Config_, bool kKeeps = false>
struct TestLayout {
  using Config = Config_;
  static constexpr int kChunksOfRow = (Config::kTileN + kChunkColumns - 1) / kChunkColumns;
  static constexpr bool kCarries = kKeeps, kCopiesFew = Config::kTileN > 128;
  static unsigned char* copies(int group) {
    return device_on_host::shared_memory + group * 4 * kSlotBytes;
  }
  static unsigned char* carries(int group) {
    return device_on_host::shared_memory + 8 * kSlotBytes + group * kCarryBytes;
  }
};

template <class Element>
struct TestEpilogue {
  using Stores = Types<F32, Element>;  // the first is not copied
};

// Of which rows and columns of a result there are, and where the warp's chunk is in it.
struct Where {
  int m, n, row, column;
  bool is_cut = false;
  std::vector<int> index = {};
};

constexpr int kGap = 24;  // elements between rows, a multiple of all units
constexpr int kProduct = 1, kGroup = 1, kWarp = 2;

// Element (row, column) of the result, never 0.
template <class Storage>
Storage value(int row, int column) {
  return static_cast<Storage>(1 + (row * 37 + column * 5) % 119);
}

template <class Element>
using Bits = std::conditional_t<sizeof(typename Element::Storage) == 4, std::uint32_t,
                                typename Element::Storage>;

// As the epilogue leaves them: slots of 64 rows of 128 bytes, of which the warp has 16.
template <class Element>
void stage(unsigned char* slots, const Where& where) {
  using Storage = Bits<Element>;
  constexpr int kColumns = columns_of_slot(sizeof(Storage));
  for (int r = 0; r < kWarpRows; ++r) {
    for (int c = 0; c < kChunkColumns; ++c) {
      const Storage x = value<Storage>(where.row + r, where.column + c);
      const int byte = c % kColumns * static_cast<int>(sizeof x);
      const int at = c / kColumns * kSlotBytes + r * 128 + ((byte / 16) ^ (r % 8)) * 16 + byte % 16;
      std::memcpy(slots + at, &x, sizeof x);
    }
  }
}

// As far off 16 bytes as the unit is.
template <class Config>
constexpr int kFirst = 16 + Config::kCopiedAtOnce;
constexpr int kTable = 200;  // rows of a product's result

template <class Element>
std::vector<Bits<Element>> memory_of(const Where& where, int first) {
  const int elements = first + (kProduct + 2) * kTable * (where.n + kGap);
  return std::vector<Bits<Element>>(static_cast<std::size_t>(elements));
}

template <class Config, class Storage>
abi::GemmParams params_of(const Where& where, Storage* memory) {
  const int stride = where.n + kGap;
  abi::GemmParams p{};
  p.m = where.m;
  p.n = where.n;
  p.non_tma_stores[1] = {memory + kFirst<Config>, stride, 1, {0, kTable * stride}};
  p.rows_of_stores[1] = {where.index.data(), 1, kTable, 0};
  return p;
}

// Of a warp's rows, those columns of the result.
template <class Config, class Element>
void expect(const Where& where, int columns, std::vector<Bits<Element>>& memory) {
  for (int r = where.row; r < std::min(where.row + kWarpRows, where.m); ++r) {
    int to = r;
    if (Config::kIndexedStores != 0) to = where.index[static_cast<std::size_t>(r)];
    if (to < 0 && Config::kIndexedStores != 0) to += kTable;
    if (to < 0 || to >= kTable) continue;
    for (int c = where.column; c < std::min(where.column + columns, where.n); ++c) {
      const int row = kProduct * kTable + to;
      memory[static_cast<std::size_t>(kFirst<Config> + row * (where.n + kGap) + c)] =
          value<Bits<Element>>(r, c);
    }
  }
}

template <class Config, class Element>
void test(const Where& where) {
  SCOPED_TRACE(::testing::Message()
               << sizeof(Bits<Element>) << " bytes, " << Config::kCopiedAtOnce << " at once, "
               << where.m << " x " << where.n << " at " << where.row << ", " << where.column);
  auto memory = memory_of<Element>(where, kFirst<Config>);
  const abi::GemmParams p = params_of<Config>(where, memory.data());
  unsigned char* slots = TestLayout<Config>::copies(kGroup) + kWarp * 2048;
  stage<Element>(slots, where);
  device_on_host::launch(1, 32, [&] {
    Chunk chunk{where.row, where.column, 0, {kProduct, 0}, where.is_cut};
    copy_rows_of_warp<TestLayout<Config>, TestEpilogue<Element>>(p, kGroup, kWarp, 0, chunk,
                                                                 static_cast<int>(threadIdx.x));
  });
  auto expected = memory_of<Element>(where, kFirst<Config>);
  expect<Config, Element>(where, where.is_cut ? kCutColumns<Config> : kChunkColumns, expected);
  EXPECT_TRUE(memory == expected);
}

// All chunks of a warp's rows of a tile that begins there.
template <class Config, class Element>
void test_tile(const Where& where) {
  SCOPED_TRACE(::testing::Message()
               << sizeof(Bits<Element>) << " bytes, " << Config::kCopiedAtOnce << " at once, "
               << where.m << " x " << where.n << ", tile of " << Config::kTileN << " at "
               << where.row << ", " << where.column);
  using Layout = TestLayout<Config, true>;
  auto memory = memory_of<Element>(where, kFirst<Config>);
  const abi::GemmParams p = params_of<Config>(where, memory.data());
  unsigned char* slots = TestLayout<Config>::copies(kGroup) + kWarp * 2048;
  for (int i = 0; i < Layout::kChunksOfRow; ++i) {
    Where at = where;
    at.column += i * kChunkColumns;
    at.is_cut = kHasCuts<Config> && i == Layout::kChunksOfRow - 1;
    stage<Element>(slots, at);
    device_on_host::launch(1, 32, [&] {
      Chunk chunk{at.row, at.column, 0, {kProduct, 0}, at.is_cut};
      copy_rows_of_warp<Layout, TestEpilogue<Element>>(p, kGroup, kWarp, i, chunk,
                                                       static_cast<int>(threadIdx.x));
    });
  }
  auto expected = memory_of<Element>(where, kFirst<Config>);
  expect<Config, Element>(where, Config::kTileN, expected);
  EXPECT_TRUE(memory == expected);
}

template <class Element, int kAtOnce>
void test_all() {
  using Usual = TestConfig<kAtOnce>;
  test<Usual, Element>({160, 256, 48, 64});              // all of it
  test<Usual, Element>({160, 128 + 40, 16, 128});        // the last columns
  test<Usual, Element>({16 + 11, 256, 16, 0});           // the last rows
  test<Usual, Element>({16 + 1, 64 + kAtOnce, 16, 64});  // one of both
  test<Usual, Element>({16, 256, 16, 0});                // no row
  test<Usual, Element>({160, 128, 16, 128});             // no column
  test<Usual, Element>({160, 128, 16, 192});
  test<TestConfig<kAtOnce, 0, 112>, Element>({160, 256, 0, 64, true});  // cut at 48
  std::vector<int> index(160);
  for (int i = 0; i < 160; ++i) index[static_cast<std::size_t>(i)] = (i * 7 + 3) % 160;
  index[33] = -1;
  index[35] = -200;
  index[36] = -201;  // nowhere
  index[38] = 200;
  index[39] = std::numeric_limits<int>::max();
  test<TestConfig<kAtOnce, 2>, Element>({160, 256, 32, 64, false, index});
  test<TestConfig<kAtOnce, 2>, Element>({32 + 9, 64 + 40, 32, 64, false, index});
  test_tile<Usual, Element>({160, 384, 48, 128});            // all of it
  test_tile<Usual, Element>({160, 384 + kAtOnce, 48, 128});  // rows that begin elsewhere
  test_tile<Usual, Element>({160, 384 + 3 * kAtOnce, 48, 256});
  test_tile<Usual, Element>({160, 128 + 40, 16, 128});            // of the first chunk a part
  test_tile<Usual, Element>({160, 128 + 64, 16, 128});            // the first chunk alone
  test_tile<Usual, Element>({160, 128 + 64 + kAtOnce, 16, 128});  // and a unit of the second
  test_tile<Usual, Element>({16 + 11, 256 + kAtOnce, 16, 0});     // the last rows
  test_tile<Usual, Element>({16, 256, 16, 0});                    // no row
  test_tile<Usual, Element>({160, 128, 16, 128});                 // no column
  test_tile<TestConfig<kAtOnce, 0, 112>, Element>({160, 256 + kAtOnce, 0, 112});  // cut at 48
  test_tile<TestConfig<kAtOnce, 0, 256>, Element>({160, 256 + 5 * kAtOnce, 0, 0});
}

TEST(Sm90RowCopies, PutEveryElementOfTheResultInItsPlaceAndNoOther) {
  test_all<Bf16, 1>();
  test_all<Bf16, 2>();
  test_all<Bf16, 4>();
  test_all<F32, 1>();
  test_all<F32, 2>();
  test_all<E4m3, 1>();
  test_all<E4m3, 2>();
  test_all<E4m3, 4>();
  test_all<E4m3, 8>();
}

// A result of wider elements beside one of narrower ones moves 8 bytes at most.
TEST(Sm90RowCopies, MoveNoMoreThanEightBytesAtOnce) { test_all<F32, 4>(); }

}  // namespace
}  // namespace epifuse::sm90
