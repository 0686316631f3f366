// Runs kernels/sm90/reduce.cuh on the host, chunk by chunk, and combines what it leaves.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <type_traits>

#include "cuda_on_host.h"
#include "kernels/sm90/reduce.cuh"

namespace epifuse::sm90 {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInfinity = std::numeric_limits<float>::infinity();

template <int kColumns, bool kWidths, int kTile = 128>
struct TestConfig {
  using RowReductions = Reductions<Reduce::sum, Reduce::max>;
  using ColReductions = Reductions<Reduce::max, Reduce::sum>;
  static constexpr int kMathColumns = kColumns;
  static constexpr int kTileN = kTile;
  using Scheduler = std::conditional_t<kWidths, TwoWidths<BatchOfProducts>, BatchOfProducts>;
  static constexpr Gates kGates = Gates::none;
};

// Small integers, so that sums are exact, all negative, so that a 0 from outside would be a
// maximum.
struct Matrix {
  int rows, cols;
  float at(int r, int c) const {
    if (r == 3 && c == 5) return kNan;
    return static_cast<float>(-1 - (r * 7 + c * 13) % 31);
  }
  // What a kernel would compute there: outside of the matrix anything.
  float or_anything(int r, int c) const { return r < rows && c < cols ? at(r, c) : kNan; }
};

struct Workspace {
  int parts, length;
  std::vector<float> values;
  Workspace(int parts_, int length_)
      : parts(parts_),
        length(length_),
        values(static_cast<std::size_t>(2 * parts * length), 77.f) {}
  // Of batch 1; the values of batch 0 stay as they are.
  abi::Partials params() { return {values.data(), length, {0, parts * length}}; }
  float at(int part, int i) const {
    return values[static_cast<std::size_t>((parts + part) * length + i)];
  }
  template <Reduce kReduce>
  float combined(int i) const {
    float value = identity<kReduce>();
    for (int part = 0; part < parts; ++part) value = combine<kReduce>(value, at(part, i));
    return value;
  }
};

// As WarpEpilogue::run does it.
template <class Config>
void reduce(const abi::GemmParams& p, const Matrix& matrix, const Chunk& chunk) {
  const int lane = static_cast<int>(threadIdx.x);
  ChunkReduction<Config> reduction(p, chunk, lane);
  for (int first = 0; first < kChunkColumns; first += Config::kMathColumns) {
    for (int q = first / 8; q < (first + Config::kMathColumns) / 8; ++q) {
      for (int half = 0; half < 2; ++half) {
        float values[2][4];
        for (int e = 0; e < 2; ++e) {
          const int row = chunk.row + lane / 4 + half * 8;
          const int column = q * 8 + lane % 4 * 2 + e;
          const bool is_cut = chunk.is_cut && column >= kCutColumns<Config>;
          for (float& value : values[e]) {
            value = is_cut ? 1000.0f : matrix.or_anything(row, chunk.col + column);
          }
        }
        reduction.add(q, half, values[0], values[1]);
      }
    }
    reduction.finalize_columns(first);
  }
  reduction.finalize_rows();
}

void expect_same(float actual, float expected) {
  if (std::isnan(expected)) {
    EXPECT_TRUE(std::isnan(actual)) << actual;
  } else {
    EXPECT_EQ(actual, expected);
  }
}

// Tiles of the config's columns, or of 8 fewer where they are narrow, over `matrix`: two chunks
// each.
template <class Config>
void expect_reduced(const Matrix& matrix) {
  const int tile_rows = (matrix.rows + 63) / 64 * 64;
  const int columns = Config::kTileN - (Config::Scheduler::kTwoWidths ? 8 : 0);
  const int tiles = (matrix.cols + columns - 1) / columns;
  Workspace row_sums(tiles * 2, matrix.rows), row_maxima = row_sums;
  Workspace col_maxima(tile_rows / kWarpRows, matrix.cols), col_sums = col_maxima;
  abi::GemmParams p{};
  p.m = matrix.rows;
  p.n = matrix.cols;
  p.partials[0] = row_sums.params();
  p.partials[1] = row_maxima.params();
  p.partials[2] = col_maxima.params();
  p.partials[3] = col_sums.params();
  device_on_host::launch(1, 32, [&] {
    for (int row = 0; row < tile_rows; row += kWarpRows) {
      for (int part = 0; part < tiles * 2; ++part) {
        const int col = part / 2 * columns + part % 2 * kChunkColumns;
        reduce<Config>(p, matrix, {row, col, part, {1, 0}, kHasCuts<Config> && part % 2 == 1});
      }
    }
  });
  for (int r = 0; r < matrix.rows; ++r) {
    float sum = 0, maximum = -kInfinity;
    for (int c = 0; c < matrix.cols; ++c) {
      sum += matrix.at(r, c);
      maximum = combine<Reduce::max>(maximum, matrix.at(r, c));
    }
    expect_same(row_sums.combined<Reduce::sum>(r), sum);
    expect_same(row_maxima.combined<Reduce::max>(r), maximum);
  }
  for (int c = 0; c < matrix.cols; ++c) {
    float sum = 0, maximum = -kInfinity;
    for (int r = 0; r < matrix.rows; ++r) {
      sum += matrix.at(r, c);
      maximum = combine<Reduce::max>(maximum, matrix.at(r, c));
    }
    expect_same(col_sums.combined<Reduce::sum>(c), sum);
    expect_same(col_maxima.combined<Reduce::max>(c), maximum);
  }
  for (const Workspace* each : {&row_sums, &row_maxima, &col_maxima, &col_sums}) {
    const auto end = each->values.begin() + each->values.size() / 2;
    EXPECT_TRUE(std::all_of(each->values.begin(), end, [](float x) { return x == 77.f; }));
  }
}

TEST(Sm90Reduce, CombinesAllElementsOfTheResultAndNoOthers) {
  for (const Matrix matrix : {Matrix{1, 8}, {17, 64}, {64, 128}, {127, 200}, {70, 61}, {16, 129}}) {
    SCOPED_TRACE(std::to_string(matrix.rows) + " x " + std::to_string(matrix.cols));
    expect_reduced<TestConfig<64, false>>(matrix);
    expect_reduced<TestConfig<32, false>>(matrix);
    expect_reduced<TestConfig<16, false>>(matrix);
  }
}

TEST(Sm90Reduce, LeavesOutWhatIsCutOffANarrowTile) {
  for (const Matrix matrix : {Matrix{65, 240}, {16, 120}}) {
    expect_reduced<TestConfig<32, true>>(matrix);
  }
}

TEST(Sm90Reduce, LeavesOutWhatATileIsShortOfWholeChunks) {
  for (const Matrix matrix : {Matrix{65, 224}, {16, 100}, {17, 339}}) {
    expect_reduced<TestConfig<32, false, 112>>(matrix);
    expect_reduced<TestConfig<64, false, 80>>(matrix);
    expect_reduced<TestConfig<16, false, 96>>(matrix);
  }
}

}  // namespace
}  // namespace epifuse::sm90
