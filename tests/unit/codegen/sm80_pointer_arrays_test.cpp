// Runs the three kernels of many problems of the cp.async + mma.sync GEMM on the host, lane by
// lane: what describes them, what multiplies, and what does by hand those that it cannot address.
#include <gtest/gtest.h>

#include <cmath>
#include <list>
#include <type_traits>
#include <vector>

#include "cuda_on_host.h"
#include "kernels/common/pointer_arrays_by_hand.cuh"
#include "kernels/sm80/pointer_arrays.cuh"
#include "sm80_on_host.h"

namespace epifuse::sm80 {
namespace {

constexpr int kTensors = 8;  // a, b, row, column, tile, y, z, scalar

// y and z of Everything, as describe_source writes it.
template <class Config>
struct Layer {
  using Describer = CopyDescriber;
  using Element = typename Config::Element;
  static constexpr int kNumSizes = 3, kNumTensors = kTensors;
  static constexpr int kBytes = sizeof(typename Element::Storage);

  static void describe(const long long* sizes, const pointer_arrays::Tensor* tensors,
                       Describer& out) {
    using pointer_arrays::View;
    const long long m = sizes[0], n = sizes[1], k = sizes[2];
    const auto operand = [&](int i, long long rows, bool is_k_major) {
      const long long stride = tensors[i].row_stride(is_k_major ? k : rows);
      return tensors[i].template view<Element>(0, rows, k, is_k_major ? stride : 1,
                                               is_k_major ? 1 : stride);
    };
    const View a = operand(0, m, Config::kAIsKMajor), b = operand(1, n, Config::kBIsKMajor);
    out.operand<kBytes, Config::kAIsKMajor, Config::kAlignmentA>(&abi::CopiedGemmParams::a, a);
    out.operand<kBytes, Config::kBIsKMajor, Config::kAlignmentB>(&abi::CopiedGemmParams::b, b);
    out.by_hand().a = pointer_arrays::matrix(a);
    out.by_hand().b = pointer_arrays::matrix(b);
    out.gemm().rows[0] = pointer_arrays::row(tensors[2].view<Bf16>(0, 1, n, 0, 1));
    out.gemm().cols[0] = pointer_arrays::column(tensors[3].view<F32>(0, m, 1, 1, 1));
    out.gemm().scalars[0] = pointer_arrays::row(tensors[7].view<F32>(0, 1, 1, 0, 1));
    const auto full = [&](auto element, int i) {
      return tensors[i].template view<decltype(element)>(0, m, n, tensors[i].row_stride(n), 1);
    };
    const View tile = full(Element(), 4), y = full(Element(), 5), z = full(F32(), 6);
    if constexpr (Config::kNonTmaStores == 0) {
      out.vectors<kBytes>(out.gemm().plain_tiles[0], tile);
      out.vectors<kBytes>(out.gemm().non_tma_stores[0], y);
      out.vectors<4>(out.gemm().non_tma_stores[1], z);
    } else {
      out.elements(out.gemm().plain_tiles[0], tile);
      out.elements(out.gemm().non_tma_stores[0], y);
      out.elements(out.gemm().non_tma_stores[1], z);
    }
    out.by_hand().tiles[0] = pointer_arrays::matrix(tile);
    out.by_hand().stores[0] = pointer_arrays::matrix(y);
    out.by_hand().stores[1] = pointer_arrays::matrix(z);
    out.finish(m, n, k);
  }
};

struct ByHandConfig {
  using A = Bf16;
  using B = Bf16;
  static constexpr int kProducts = 1;
};

// Rows of operands are `padding` elements longer than they need, those of full-size matrices so
// many longer than the next multiple of a vector; operands start `offset` elements off 16 bytes.
struct Size {
  int m, n, k;
  int padding = 8, full_padding = 0, offset = 0;
  bool is_by_hand = false;
};

template <class Config>
struct Tensors {
  using Element = typename Config::Element;
  Operand<Element> a, b, tile, y;
  Operand<F32> z, cols;
  Operand<Bf16> rows;
  float scalar;

  Tensors(const Size& s, int salt)
      : a(s.m, s.k, Config::kAIsKMajor, s.padding, salt, s.offset),
        b(s.n, s.k, Config::kBIsKMajor, s.padding, salt + 1, s.offset),
        tile(s.m, s.n, true, (4 - s.n % 4) % 4 + s.full_padding, 2),
        y(s.m, s.n, true, (4 - s.n % 4) % 4 + s.full_padding, 3),
        z(s.m, s.n, true, (4 - s.n % 4) % 4 + s.full_padding, 4),
        cols(1, s.m, true, 0, salt + 5),
        rows(1, s.n, true, 0, salt + 6),
        scalar(static_cast<float>(salt)) {}
};

template <class Config>
class Problems {
  using Element = typename Config::Element;
  using Epilogue = Everything<Element>;

 public:
  explicit Problems(const std::vector<Size>& sizes) : sizes_(sizes) {
    for (const Size& size : sizes) {
      const int salt = static_cast<int>(tensors_.size());
      Tensors<Config>& t = tensors_.emplace_back(size, salt);
      numbers_.insert(numbers_.end(), {size.m, size.n, size.k});
      add({{t.a.params().data, t.a.stride},
           {t.b.params().data, t.b.stride},
           {t.rows.params().data, 0},
           {t.cols.params().data, 1},
           {t.tile.params().data, t.tile.stride},
           {t.y.params().data, t.y.stride},
           {t.z.params().data, t.z.stride},
           {&t.scalar, 0}});
    }
    problems_.resize(sizes.size());
    tiles_.resize(sizes.size());
  }

  void describe() {
    abi::DescribeParams p{};
    p.usual.parameters[0] = 2;
    p.usual.raster = 2;
    p.usual.batch = p.usual.batch_inner = 1;
    p.problems = problems_.data();
    p.tiles = tiles_.data();
    p.tile_rows = Config::kTileM;
    p.tile_columns = Config::kTileN;
    p.sizes = numbers_.data();
    p.num_sizes = 3;
    for (int i = 0; i < 3; ++i) p.size_columns[i] = i;
    for (int i = 0; i < kTensors; ++i) p.tensors[i] = {data_[i].data(), strides_[i].data()};
    device_on_host::launch(static_cast<unsigned>(sizes_.size()), abi::kDescribeThreads,
                           [&] { pointer_arrays::describe<Layer<Config>>(p); });
  }
  void multiply(unsigned grid) {
    const abi::ProblemList all{problems_.data(), tiles_.data(), static_cast<int>(sizes_.size())};
    device_on_host::launch(grid, kThreads<Config>,
                           [&] { gemm_of_problems<Config, Epilogue>(all); });
  }
  void run_by_hand() {
    const abi::ByHandParams p{
        problems_.data(), tiles_.data(), static_cast<int>(sizes_.size()), {2}};
    device_on_host::launch(2, abi::kByHandThreads,
                           [&] { by_hand::problems<ByHandConfig, Epilogue>(p); });
  }

  // How many tiles a problem has, none of one that is done by hand.
  int tiles(std::size_t i) const { return tiles_[i].tiles; }
  void expect_right() {
    std::size_t i = 0;
    for (Tensors<Config>& t : tensors_) {
      SCOPED_TRACE(testing::Message() << "problem " << i);
      EXPECT_EQ(tiles_[i].is_by_hand != 0, sizes_[i].is_by_hand);
      expect_right(t, sizes_[i++]);
    }
  }

 private:
  struct Place {
    const void* data;
    long long stride;
  };
  void add(const std::vector<Place>& places) {
    for (std::size_t t = 0; t < places.size(); ++t) {
      data_[t].push_back(places[t].data);
      strides_[t].push_back(places[t].stride);
    }
  }

  static void expect_right(Tensors<Config>& t, const Size& size) {
    for (int r = 0; r < size.m; ++r) {
      for (int c = 0; c < size.n; ++c) {
        const float acc = sum(t.a, t.b, r, c);
        const float want = Epilogue::value(acc, t.rows.at(0, c), t.cols.at(0, r), t.tile.at(r, c));
        ASSERT_EQ(t.y.at(r, c), Element::load(Element::store(want))) << r << ", " << c;
        ASSERT_EQ(t.z.at(r, c), acc * 2 + t.scalar) << r << ", " << c;
      }
      for (long long c = size.n; c < t.y.stride; ++c) {
        ASSERT_TRUE(std::isnan(t.y.at(r, static_cast<int>(c)))) << "behind row " << r;
      }
    }
  }

  std::vector<Size> sizes_;
  std::list<Tensors<Config>> tensors_;
  std::vector<long long> numbers_, strides_[kTensors];
  std::vector<const void*> data_[kTensors];
  std::vector<abi::Problem> problems_;
  std::vector<abi::ProblemTiles> tiles_;
};

template <bool kA, bool kB>
struct PointerArrays : Layout<Bf16, kA, kB, 64, 16> {
  static constexpr bool kPersistent = true, kPointerArrays = true;
};
struct Large : PointerArrays<true, true> {
  static constexpr int kTileM = 128, kTileN = 128, kWarpM = 64, kWarpN = 64, kSharedBytes = 98304;
};

struct Misaligned : PointerArrays<true, true> {
  static constexpr int kAlignmentA = 4, kAlignmentB = 2;
  static constexpr unsigned kNonTmaLoads = 1, kNonTmaStores = 3;
};

template <class Config>
void test(const std::vector<Size>& sizes, unsigned grid) {
  for (const bool late : {false, true}) {
    device_on_host::copies_land_late = late;
    Problems<Config> problems(sizes);
    problems.describe();
    problems.multiply(grid);
    problems.run_by_hand();
    problems.expect_right();
  }
}

// Of many tiles and of one, of fewer steps than stages, without rows, without products.
const std::vector<Size> kSizes = {{72, 136, 40}, {8, 8, 8},     {0, 64, 64}, {16, 24, 0},
                                  {64, 64, 200}, {200, 72, 16}, {64, 0, 64}};

TEST(Sm80PointerArrays, MultipliesProblemsOfAllSizes) {
  test<PointerArrays<true, true>>(kSizes, 3);
  test<PointerArrays<true, true>>({{70, 130, 40}, {1, 3, 72}, {65, 66, 16}}, 3);
  test<PointerArrays<true, false>>(kSizes, 4);
  test<PointerArrays<false, false>>(kSizes, 1);
  test<Large>({{140, 40, 72}, {5, 9, 24}, {130, 136, 8}}, 2);
}

TEST(Sm80PointerArrays, LeavesCtasWithoutTiles) {
  test<PointerArrays<true, true>>({{0, 8, 8}, {10, 16, 24}, {0, 8, 8}}, 5);
  test<PointerArrays<true, true>>({{0, 8, 8}}, 2);
}

// Beside one that can be addressed, whose ragged ends are copied in parts.
TEST(Sm80PointerArrays, DoesByHandWhatItCannotAddress) {
  test<PointerArrays<true, true>>({{20, 30, 17, 1, 0, 0, true},
                                   {50, 70, 39, 1},  // rows of 40 elements
                                   {20, 30, 24, 8, 0, 1, true},
                                   {20, 30, 24, 8, 1, 0, true}},
                                  2);
}

TEST(Sm80PointerArrays, TakesMisalignedRowsWhereTypicalProblemsHaveThem) {
  test<Misaligned>({{50, 70, 38, 0, 1, 2}, {20, 30, 40, 2, 3}, {20, 30, 39, 0, 0, 0, true}}, 2);
}

TEST(Sm80PointerArrays, TakesASingleRowWhateverItsStride) {
  test<PointerArrays<true, true>>({{1, 40, 24, 8}, {40, 1, 24, 8}}, 1);
  Size single{1, 1, 23, 0, 1};
  test<PointerArrays<true, true>>({single}, 1);
}

TEST(Sm80PointerArrays, CountsTilesOfThoseItTakes) {
  Problems<PointerArrays<true, true>> problems(
      {{70, 130, 40}, {20, 30, 17, 1, 0, 0, true}, {0, 64, 64}, {16, 24, 0}});
  problems.describe();
  EXPECT_EQ(problems.tiles(0), 2 * 3);
  EXPECT_EQ(problems.tiles(1), 0);
  EXPECT_EQ(problems.tiles(2), 0);
  EXPECT_EQ(problems.tiles(3), 1);
}

}  // namespace
}  // namespace epifuse::sm80
