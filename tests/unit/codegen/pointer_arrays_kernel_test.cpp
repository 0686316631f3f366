// Runs kernels/common/pointer_arrays.cuh and kernels/common/pointer_arrays_by_hand.cuh on the host:
// what they write of problems of all sizes, and what the second computes of those that no maps can
// address.
#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "base/float_types.h"
#include "cuda_on_host.h"
#include "kernels/common/pointer_array_maps.cuh"
#include "kernels/common/pointer_arrays_by_hand.cuh"

namespace epifuse {
namespace {

constexpr int kTileM = 128, kTileN = 192, kStep = 64;
constexpr int kBox = 77;

// y[m, n] = max(x w^T + b[n], 0) * c[m] + r[m, n], as describe_source writes it.
struct Layer {
  using Describer = pointer_arrays::MapDescriber;
  static constexpr int kNumSizes = 3, kNumTensors = 6;

  static void describe(const long long* sizes, const pointer_arrays::Tensor* tensors,
                       Describer& out) {
    const long long k = sizes[0], m = sizes[1], n = sizes[2];
    const pointer_arrays::View x = tensors[0].view<Bf16>(0, m, k, tensors[0].row_stride(k), 1);
    const pointer_arrays::View w = tensors[1].view<Bf16>(0, n, k, tensors[1].row_stride(k), 1);
    const pointer_arrays::View r = tensors[4].view<Bf16>(0, m, n, tensors[4].row_stride(n), 1);
    const pointer_arrays::View y = tensors[5].view<Bf16>(0, m, n, tensors[5].row_stride(n), 1);
    out.operand<2>(&abi::GemmParams::a, x);
    out.operand<2>(&abi::GemmParams::b, w);
    out.by_hand().a = pointer_arrays::matrix(x);
    out.by_hand().b = pointer_arrays::matrix(w);
    out.gemm().rows[0] = pointer_arrays::row(tensors[2].view<Bf16>(0, 1, n, 0, 1));
    out.gemm().cols[0] =
        pointer_arrays::column(tensors[3].view<F32>(0, m, 1, tensors[3].row_stride(1), 1));
    out.full_size_map<2>(&abi::FullSizeMaps::load, 0, r);
    out.by_hand().tiles[0] = pointer_arrays::matrix(r);
    out.full_size_map<2>(&abi::FullSizeMaps::store, 0, y);
    out.by_hand().stores[0] = pointer_arrays::matrix(y);
    out.finish(m, n, k, kStep);
  }
};

struct Config {
  using A = Bf16;
  using B = Bf16;
  static constexpr int kProducts = 1;
};

struct Epilogue {
  using Rows = Types<Bf16>;
  using Cols = Types<F32>;
  using Tiles = Types<Bf16>;
  using Scalars = Types<>;
  using Stores = Types<Bf16>;
  static constexpr int kNumParameters = 1;

  static void apply(float acc, const Operands<Epilogue>& x, float (&out)[1]) {
    out[0] = std::max(acc + x.row[0], x.parameter[0]) * x.col[0] + x.tile[0];
  }
};

// A tensor in memory, its first element `margin` elements behind a multiple of 16 bytes.
struct Memory {
  Memory(DType dtype_, std::int64_t rows_, std::int64_t cols_, std::int64_t row_stride,
         std::int64_t margin, std::mt19937& random)
      : dtype(dtype_), rows(rows_), cols(cols_), stride(row_stride) {
    const auto elements = static_cast<std::size_t>(std::max<std::int64_t>(rows * stride, 1));
    words.assign(elements * size_bytes(dtype) / 8 + 8, ~0ull);
    const auto address = (reinterpret_cast<std::uintptr_t>(words.data()) + 15) / 16 * 16;
    data = reinterpret_cast<char*>(address) + margin * static_cast<std::int64_t>(size_bytes(dtype));
    std::normal_distribution<double> normal;
    for (std::int64_t row = 0; row < rows; ++row) {
      for (std::int64_t col = 0; col < cols; ++col) {
        store_element(data, dtype, row * stride + col, normal(random));
      }
    }
  }
  double at(std::int64_t row, std::int64_t col) const {
    return load_element(data, dtype, row * stride + col);
  }

  DType dtype;
  std::int64_t rows, cols, stride;
  std::vector<std::uint64_t> words;
  char* data = nullptr;
};

struct Sizes {
  std::int64_t m, n, k;
  std::int64_t pad = 0, margin = 0;  // of rows, of starts, in elements
};

struct Layers {
  explicit Layers(const std::vector<Sizes>& all) {
    std::mt19937 random(3);
    const auto add = [&](std::size_t tensor, DType dtype, std::int64_t rows, std::int64_t cols,
                         const Sizes& of) {
      const std::int64_t stride = rows > 1 || tensor != 2 ? cols + of.pad : cols;
      tensors[tensor].emplace_back(dtype, rows, cols, stride, of.margin, random);
      data[tensor].push_back(tensors[tensor].back().data);
      strides[tensor].push_back(stride);
    };
    for (const Sizes& of : all) {
      sizes.insert(sizes.end(), {of.m, of.n, of.k});
      add(0, DType::bf16, of.m, of.k, of);
      add(1, DType::bf16, of.n, of.k, of);
      add(2, DType::bf16, 1, of.n, of);
      add(3, DType::f32, of.m, 1, of);
      add(4, DType::bf16, of.m, of.n, of);
      add(5, DType::bf16, of.m, of.n, of);
    }
    problems.resize(all.size());
    tiles.resize(all.size());
  }

  void describe() {
    abi::DescribeParams p{};
    HostMap usual{};
    usual.box = kBox;
    for (abi::TensorMap* map :
         {&p.usual.a, &p.usual.b, &p.usual.full[0].load, &p.usual.full[0].store}) {
      std::memcpy(map, &usual, sizeof usual);
    }
    p.usual.raster = 16;
    p.problems = problems.data();
    p.tiles = tiles.data();
    p.tile_rows = kTileM;
    p.tile_columns = kTileN;
    p.sizes = sizes.data();
    p.num_sizes = 3;
    const int columns[] = {2, 0, 1};  // of k, m, n, given as m, n, k
    std::copy(std::begin(columns), std::end(columns), p.size_columns);
    for (std::size_t t = 0; t < 6; ++t) {
      p.tensors[t] = {data[t].data(), t == 2 ? nullptr : strides[t].data()};
    }
    device_on_host::launch(static_cast<unsigned>(problems.size()), abi::kDescribeThreads,
                           [&] { pointer_arrays::describe<Layer>(p); });
  }

  void run_by_hand() {
    const abi::ByHandParams p{
        problems.data(), tiles.data(), static_cast<int>(problems.size()), {0.25f}};
    device_on_host::launch(3, abi::kByHandThreads, [&] { by_hand::problems<Config, Epilogue>(p); });
  }

  // The largest difference of a problem's results from float64, over what rounding explains.
  double error(std::size_t i) const {
    double worst = 0;
    const Memory &x = tensors[0][i], &w = tensors[1][i], &y = tensors[5][i];
    for (std::int64_t row = 0; row < y.rows; ++row) {
      for (std::int64_t col = 0; col < y.cols; ++col) {
        double sum = tensors[2][i].at(0, col);
        for (std::int64_t k = 0; k < x.cols; ++k) sum += x.at(row, k) * w.at(col, k);
        const double scaled = std::max(sum, 0.25) * tensors[3][i].at(row, 0);
        const double exact = scaled + residuals[i][static_cast<std::size_t>(row * y.cols + col)];
        worst = std::max(
            worst, std::abs(y.at(row, col) - exact) / (std::ldexp(std::abs(exact), -8) + 1e-4));
      }
    }
    return worst;
  }

  // Keeps the residuals and poisons the results.
  void poison() {
    for (std::size_t i = 0; i < tensors[4].size(); ++i) {
      const Memory& r = tensors[4][i];
      std::vector<double>& kept = residuals.emplace_back();
      for (std::int64_t row = 0; row < r.rows; ++row) {
        for (std::int64_t col = 0; col < r.cols; ++col) kept.push_back(r.at(row, col));
      }
      Memory& y = tensors[5][i];
      std::fill(y.words.begin(), y.words.end(), ~0ull);
    }
  }

  std::vector<Memory> tensors[6];
  std::vector<const void*> data[6];
  std::vector<long long> strides[6], sizes;
  std::vector<std::vector<double>> residuals;
  std::vector<abi::Problem> problems;
  std::vector<abi::ProblemTiles> tiles;
};

void expect_map(const abi::TensorMap& map, const Memory& memory) {
  const HostMap found = host_map(map);
  EXPECT_EQ(found.data, memory.data);
  EXPECT_EQ(found.rows, memory.rows);
  EXPECT_EQ(found.cols, memory.cols);
  EXPECT_EQ(found.box, kBox);
  if (memory.rows > 1) {
    EXPECT_EQ(found.row_bytes, memory.stride * 2);
  }
  EXPECT_EQ(found.row_bytes % 16, 0);
}

TEST(PointerArraysKernel, DescribesWhatMapsCanAddress) {
  const std::vector<Sizes> all{{129, 200, 64}, {1, 8, 72, 8}, {300, 192, 128, 8}};
  Layers layers(all);
  layers.describe();
  const int tiles[] = {4, 1, 3};
  for (std::size_t i = 0; i < all.size(); ++i) {
    SCOPED_TRACE(i);
    const abi::GemmParams& p = layers.problems[i].product.gemm;
    EXPECT_EQ(layers.tiles[i].tiles, tiles[i]);
    EXPECT_EQ(layers.tiles[i].is_by_hand, 0);
    EXPECT_EQ(std::vector<std::int64_t>({p.m, p.n, p.k}),
              std::vector<std::int64_t>({all[i].m, all[i].n, all[i].k}));
    EXPECT_EQ(p.first_k, 0);
    EXPECT_EQ(p.raster, 16);
    expect_map(p.a, layers.tensors[0][i]);
    expect_map(p.b, layers.tensors[1][i]);
    expect_map(p.full[0].load, layers.tensors[4][i]);
    expect_map(p.full[0].store, layers.tensors[5][i]);
    EXPECT_EQ(p.rows[0].data, layers.tensors[2][i].data);
    EXPECT_EQ(p.cols[0].data, layers.tensors[3][i].data);
    EXPECT_EQ(p.cols[0].stride, layers.tensors[3][i].stride);
  }
}

TEST(PointerArraysKernel, ProblemsWithoutResultsHaveNoTiles) {
  Layers layers({{0, 200, 64}, {10, 0, 64}, {16, 24, 0}});
  layers.describe();
  EXPECT_EQ(layers.tiles[0].tiles + layers.tiles[0].is_by_hand, 0);
  EXPECT_EQ(layers.tiles[1].tiles + layers.tiles[1].is_by_hand, 0);
  // A sum of nothing starts behind the only element of a map.
  EXPECT_EQ(layers.tiles[2].tiles, 1);
  EXPECT_EQ(layers.problems[2].product.gemm.first_k, kStep);
  EXPECT_EQ(host_map(layers.problems[2].product.gemm.a).cols, 1U);
}

TEST(PointerArraysKernel, DoesTheOthersByHand) {
  const std::vector<Sizes> all{{130, 70, 40, 1},  // rows off 16-byte boundaries
                               {64, 64, 32, 8},   // none: maps take it
                               {1, 3, 17, 0, 1},  // starts off them
                               {5, 129, 1, 3, 7},
                               {16, 60, 60, 4}};  // results that end between such boundaries
  Layers layers(all);
  layers.poison();
  layers.describe();
  layers.run_by_hand();
  for (const std::size_t i : {0U, 2U, 3U, 4U}) {
    EXPECT_EQ(layers.tiles[i].tiles, 0);
    EXPECT_EQ(layers.tiles[i].is_by_hand, 1);
    EXPECT_LE(layers.error(i), 1) << "problem " << i;
  }
  EXPECT_EQ(layers.tiles[1].is_by_hand, 0);
  EXPECT_TRUE(std::isnan(layers.tensors[5][1].at(0, 0)));
}

}  // namespace
}  // namespace epifuse
