// Runs kernels/sm90/few_rows.cuh on the host, on operands with poison between and behind their
// rows.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <vector>

#include "cuda_on_host.h"
#include "kernels/sm90/few_rows.cuh"

namespace epifuse::sm90 {
namespace {

using Element = std::uint16_t;

// y = acc * alpha + row[n] + col[m] + tile[m, n]; of two products acc + 2 second.
template <int kProducts>
struct TestEpilogue {
  using Rows = Types<F32>;
  using Cols = Types<Bf16>;
  using Tiles = Types<F32>;
  using Scalars = Types<>;
  using Stores = Types<F32, Bf16>;
  static constexpr int kNumParameters = 1;
  static void apply(float acc, const Operands<TestEpilogue>& x, float (&out)[2]) {
    out[0] = acc * x.parameter[0] + x.row[0] + x.col[0] + x.tile[0];
    out[1] = acc;
  }
  static void apply(float acc, float second, const Operands<TestEpilogue>& x, float (&out)[2]) {
    apply(acc + 2 * second, x, out);
  }
};

template <class OperandType, bool kKMajor, int kRowsOfTile, int kColumnsOfTile, int kProductsOfTile,
          LoadsOfA kLoads = LoadsOfA::vectors, bool kShifted = false, bool kBatched = true>
struct TestConfig {
  using Operand = OperandType;
  using OperandB = OperandType;
  static constexpr int kProducts = kProductsOfTile;
  static constexpr bool kBIsKMajor = kKMajor, kBIsShifted = kShifted;
  static constexpr LoadsOfA kLoadsOfA = kLoads;
  static constexpr bool kIsBatched = kBatched;
  static constexpr int kRows = kRowsOfTile, kColumns = kColumnsOfTile;
  static constexpr int kWarps = 2, kSplitK = 1, kDepth = 3;
};

float small(std::int64_t i) { return static_cast<float>(i % 7 - 3); }

// Of b, elements of 8 bits, which are widened.
template <class Config, class Narrow>
struct Widening : Config {
  using OperandB = Narrow;
};

// rows x cols, of batches. Rows are padded to 16 bytes and no further, or they begin off 16-byte
// boundaries: `off` elements of 16 bytes before the first, as many behind each. What is no element
// is poisoned.
template <class T>
struct Padded {
  using Element = typename T::Storage;
  static constexpr std::int64_t kVector = 16 / sizeof(Element);
  std::int64_t rows, cols, off, stride, seed;
  std::vector<uint4> memory;

  Padded(int batch, std::int64_t rows_, std::int64_t cols_, std::int64_t seed_,
         std::int64_t off_ = 0)
      : rows(rows_),
        cols(cols_),
        off(off_),
        stride((off != 0 ? cols : (cols + kVector - 1) / kVector * kVector) + off),
        seed(seed_) {
    const auto bytes = static_cast<std::size_t>(batch * rows * stride + off) * sizeof(Element);
    memory.resize(std::max<std::size_t>((bytes + 15) / 16, 1));  // also where K is 0
    std::vector<Element> all(memory.size() * kVector,
                             T::store(std::numeric_limits<float>::quiet_NaN()));
    for (std::int64_t r = 0; r < batch * rows; ++r) {
      for (std::int64_t c = 0; c < cols; ++c) {
        all[static_cast<std::size_t>(off + r * stride + c)] = T::store(at(r, c));
      }
    }
    if (memory.empty()) return;
    std::memcpy(memory.data(), all.data(), memory.size() * 16);
    const auto* begin = reinterpret_cast<const char*>(memory.data());
    const std::int64_t end = off + (batch * rows - 1) * stride + cols;  // of the last row
    device_on_host::readable.push_back(
        {begin, begin + end * static_cast<std::int64_t>(sizeof(Element))});
  }
  float at(std::int64_t r, std::int64_t c) const { return small(r * 5 + c * 3 + seed + r * c); }
  abi::Matrix params(bool transposed) {
    return {reinterpret_cast<Element*>(memory.data()) + off,
            transposed ? 1 : stride,
            transposed ? stride : 1,
            {0, rows * stride}};
  }
};

// How operands lie beside what Config says: elements that rows begin off 16-byte boundaries.
struct Lies {
  bool is_a_along_m = false;
  std::int64_t a_off = 0, b_off = 0;
};

template <class Config>
void expect_right(int m, int n, int k, const Lies& lies) {
  SCOPED_TRACE(::testing::Message()
               << m << "x" << n << "x" << k << ", off by " << lies.a_off << " and " << lies.b_off);
  using T = typename Config::Operand;
  using B = typename Config::OperandB;
  constexpr int kBatch = Config::kIsBatched ? 2 : 1;
  constexpr bool kTransposed = !Config::kBIsKMajor;
  device_on_host::readable.clear();
  device_on_host::num_bad_loads = 0;
  const bool along_m = lies.is_a_along_m;
  Padded<T> a(kBatch, along_m ? k : m, along_m ? m : k, 1, lies.a_off);
  Padded<B> b(kBatch, kTransposed ? k : n, kTransposed ? n : k, 2, lies.b_off), second(b);
  second = Padded<B>(kBatch, b.rows, b.cols, 5, lies.b_off);
  std::vector<float> row, tile, y(static_cast<std::size_t>(kBatch * m * n), -77.0f);
  std::vector<Element> col, z(y.size());
  for (int i = 0; i < n; ++i) row.push_back(small(i * 2));
  for (int i = 0; i < m; ++i) col.push_back(Bf16::store(small(i * 3)));
  for (int i = 0; i < kBatch * m * n; ++i) tile.push_back(small(i));
  abi::FewRowsParams p{};
  p.m = m, p.n = n, p.k = k, p.batch_inner = kBatch;
  p.a = a.params(along_m), p.b = b.params(kTransposed), p.second_b = second.params(kTransposed);
  p.parameters[0] = 0.5f;
  p.rows[0] = {row.data(), 1, {}};
  p.cols[0] = {col.data(), 1, {}};
  p.tiles[0] = {tile.data(), n, 1, {0, m * n}};
  p.stores[0] = {y.data(), 1, m, {0, m * n}};  // column-major
  p.stores[1] = {z.data(), n, 1, {0, m * n}};
  const int step = Config::kBIsKMajor && Config::kBIsShifted ? 8 : 1;  // of a tile's columns
  const int tiles = (m + Config::kRows - 1) / Config::kRows *
                    ((n + Config::kColumns * step - 1) / (Config::kColumns * step) * step);
  device_on_host::launch(static_cast<unsigned>(kBatch * tiles), Config::kWarps * 32,
                         [&] { few_rows<Config, TestEpilogue<Config::kProducts>>(p); });
  EXPECT_EQ(device_on_host::num_bad_loads, 0);
  for (int batch = 0; batch < kBatch; ++batch) {
    for (int i = 0; i < m; ++i) {
      for (int j = 0; j < n; ++j) {
        float acc = 0;
        for (int l = 0; l < k; ++l) {
          const std::int64_t r = batch * b.rows + (kTransposed ? l : j), c = kTransposed ? j : l;
          const float of_b = b.at(r, c) + (Config::kProducts > 1 ? 2 * second.at(r, c) : 0);
          acc += (along_m ? a.at(batch * k + l, i) : a.at(batch * m + i, l)) * of_b;
        }
        const float expected =
            acc * 0.5f + small(j * 2) + small(i * 3) + small((batch * m + i) * n + j);
        ASSERT_EQ(y[static_cast<std::size_t>(batch * m * n + j * m + i)], expected)
            << batch << ": " << i << ", " << j;
        ASSERT_EQ(z[static_cast<std::size_t>((batch * m + i) * n + j)], Bf16::store(acc));
      }
    }
  }
}

template <class Config>
void expect_right_at_all_edges(const Lies& lies = {}) {
  expect_right<Config>(1, 16, 64, lies);
  expect_right<Config>(8, 70, 1000, lies);
  expect_right<Config>(5, 33, 205, lies);
  expect_right<Config>(17, 130, 71, lies);
  expect_right<Config>(3, 5, 3, lies);
  expect_right<Config>(2, 9, 0, lies);
}

TEST(Sm90FewRowsKernel, MultipliesWeightsAlongK) {
  expect_right_at_all_edges<TestConfig<Bf16, true, 8, 16, 1>>();
  expect_right_at_all_edges<TestConfig<F16, true, 16, 32, 1>>();
}

TEST(Sm90FewRowsKernel, MultipliesWeightsAlongN) {
  expect_right_at_all_edges<TestConfig<Bf16, false, 8, 64, 1>>();
  expect_right_at_all_edges<TestConfig<F16, false, 16, 128, 1>>();
}

TEST(Sm90FewRowsKernel, MultipliesNarrowTilesOfWeightsAlongN) {
  expect_right_at_all_edges<TestConfig<Bf16, false, 16, 32, 1>>();
  expect_right_at_all_edges<TestConfig<F16, false, 8, 32, 2>>();
  using Shifted = TestConfig<Bf16, false, 8, 32, 1, LoadsOfA::elements, true>;
  for (const int off : {1, 2, 3, 6}) expect_right_at_all_edges<Shifted>({.a_off = 1, .b_off = off});
}

TEST(Sm90FewRowsKernel, MultipliesRowsAlongM) {
  const Lies aligned{.is_a_along_m = true}, odd{.is_a_along_m = true, .a_off = 3};
  using AlongK = TestConfig<Bf16, true, 16, 16, 1, LoadsOfA::elements>;
  using AlongN = TestConfig<F16, false, 8, 64, 1, LoadsOfA::elements>;
  expect_right_at_all_edges<AlongK>(aligned);
  expect_right_at_all_edges<AlongK>(odd);
  expect_right_at_all_edges<AlongN>(aligned);
  expect_right_at_all_edges<AlongN>(odd);
  expect_right_at_all_edges<TestConfig<Bf16, true, 8, 16, 2, LoadsOfA::elements>>(odd);
}

TEST(Sm90FewRowsKernel, MultipliesRowsAlongKAtAnyPlaces) {
  using AlongK = TestConfig<Bf16, true, 8, 16, 1, LoadsOfA::shifted>;
  using AlongN = TestConfig<Bf16, false, 16, 64, 1, LoadsOfA::elements>;
  for (const int off : {1, 2, 4, 7}) expect_right_at_all_edges<AlongK>({.a_off = off});
  expect_right_at_all_edges<AlongN>({.a_off = 4});
  expect_right_at_all_edges<TestConfig<F16, true, 16, 8, 2, LoadsOfA::shifted>>({.a_off = 3});
}

TEST(Sm90FewRowsKernel, MultipliesWeightsAlongKAtAnyPlaces) {
  using Both = TestConfig<Bf16, true, 16, 16, 1, LoadsOfA::shifted, true>;
  for (const int off : {1, 2, 4, 7}) expect_right_at_all_edges<Both>({.a_off = off, .b_off = off});
  expect_right_at_all_edges<Both>({.b_off = 5});
  expect_right_at_all_edges<Both>({.a_off = 7, .b_off = 2});
  expect_right_at_all_edges<TestConfig<F16, true, 8, 16, 1, LoadsOfA::elements, true>>(
      {.is_a_along_m = true, .a_off = 1, .b_off = 3});
}

TEST(Sm90FewRowsKernel, MultipliesWeightsAlongNAtAnyPlaces) {
  using Plain = TestConfig<F16, false, 8, 128, 1, LoadsOfA::vectors, true>;
  for (const int off : {1, 2, 4, 7}) expect_right_at_all_edges<Plain>({.b_off = off});
  expect_right_at_all_edges<TestConfig<Bf16, false, 16, 64, 1, LoadsOfA::elements, true>>(
      {.is_a_along_m = true, .a_off = 1, .b_off = 3});
}

TEST(Sm90FewRowsKernel, MultipliesOneProduct) {
  constexpr auto kVectors = LoadsOfA::vectors;
  expect_right_at_all_edges<TestConfig<Bf16, true, 8, 16, 1, kVectors, false, false>>();
  expect_right_at_all_edges<TestConfig<F16, true, 16, 8, 2, kVectors, false, false>>();
  expect_right_at_all_edges<TestConfig<Bf16, false, 8, 64, 1, kVectors, false, false>>();
}

TEST(Sm90FewRowsKernel, MultipliesGates) {
  expect_right_at_all_edges<TestConfig<Bf16, true, 16, 16, 2>>();
  expect_right_at_all_edges<TestConfig<Bf16, true, 8, 8, 2>>();
  expect_right_at_all_edges<TestConfig<Bf16, false, 8, 64, 2>>();
}

TEST(Sm90FewRowsKernel, WidensWeightsOf8Bits) {
  expect_right_at_all_edges<Widening<TestConfig<Bf16, true, 8, 16, 1>, I8>>();
  expect_right_at_all_edges<Widening<TestConfig<F16, true, 16, 32, 1>, E4m3>>();
  expect_right_at_all_edges<Widening<TestConfig<Bf16, true, 32, 16, 1>, E5m2>>();
  expect_right_at_all_edges<Widening<TestConfig<F16, true, 8, 8, 2>, I8>>();
  expect_right_at_all_edges<Widening<TestConfig<Bf16, true, 16, 32, 2>, E4m3>>();
}

// y = acc + row[n].
struct BiasEpilogue {
  using Rows = Types<F32>;
  using Cols = Types<>;
  using Tiles = Types<>;
  using Scalars = Types<>;
  using Stores = Types<F32>;
  static constexpr int kNumParameters = 0;
  static void apply(float acc, const Operands<BiasEpilogue>& x, float (&out)[1]) {
    out[0] = acc + x.row[0];
  }
};

// Products of one A whose B have these numbers of columns, in one launch.
void expect_right_side_by_side(const std::vector<int>& columns) {
  using Config = TestConfig<Bf16, true, 8, 16, 1>;
  constexpr int kM = 9, kK = 200;
  device_on_host::readable.clear();
  device_on_host::num_bad_loads = 0;
  Padded<Bf16> a(1, kM, kK, 1);
  std::vector<Padded<Bf16>> b;
  std::vector<std::vector<float>> rows, results;
  abi::FewRowsSideBySideParams p{};
  int num_ctas = 0;
  for (std::size_t i = 0; i < abi::kMostSideBySide; ++i) {
    if (i < columns.size()) {
      const int n = columns[i];
      b.emplace_back(1, n, kK, static_cast<std::int64_t>(2 + 3 * i));
      rows.emplace_back();
      for (int j = 0; j < n; ++j) rows.back().push_back(small(j * 2 + static_cast<int>(i)));
      results.emplace_back(static_cast<std::size_t>(kM * n), -77.0f);
      abi::FewRowsParams& part = p.parts[i];
      part.m = kM, part.n = n, part.k = kK, part.batch_inner = 1;
      part.a = a.params(false), part.b = b.back().params(false);
      part.rows[0] = {rows.back().data(), 1, {}};
      part.stores[0] = {results.back().data(), n, 1, {}};
      num_ctas += 2 * ((n + 15) / 16);
    }
    p.ends[i] = num_ctas;
  }
  device_on_host::launch(static_cast<unsigned>(num_ctas), Config::kWarps * 32,
                         [&] { few_rows<Config, BiasEpilogue>(p); });
  EXPECT_EQ(device_on_host::num_bad_loads, 0);
  for (std::size_t part = 0; part < columns.size(); ++part) {
    for (int i = 0; i < kM; ++i) {
      for (int j = 0; j < columns[part]; ++j) {
        float expected = rows[part][static_cast<std::size_t>(j)];
        for (int l = 0; l < kK; ++l) expected += a.at(i, l) * b[part].at(j, l);
        ASSERT_EQ(results[part][static_cast<std::size_t>(i * columns[part] + j)], expected)
            << part << ": " << i << ", " << j;
      }
    }
  }
}

TEST(Sm90FewRowsKernel, MultipliesOneAByOthersSideBySide) {
  expect_right_side_by_side({40, 16});
  expect_right_side_by_side({5, 33, 17});
  expect_right_side_by_side({16, 1, 48, 31});
}

}  // namespace
}  // namespace epifuse::sm90
