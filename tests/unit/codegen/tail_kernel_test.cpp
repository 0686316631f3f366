// Runs kernels/common/tail.cuh on the host, launched by tail_launch, over tensors of all sorts of
// layouts.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <random>

#include "codegen/tail.h"
#include "cuda_on_host.h"
#include "kernels/common/tail.cuh"
#include "kernels/common/tail_blocks.cuh"

namespace epifuse::codegen {
namespace {

using Longs = std::vector<std::int64_t>;

// Memory behind a layout, poisoned; with an offset of whole elements from an aligned start.
struct Memory {
  DType dtype = DType::f32;
  ir::Layout layout;
  std::vector<std::uint64_t> words;

  Memory(DType dtype_, const Longs& shape, Longs strides, std::int64_t offset = 0) : dtype(dtype_) {
    layout = {offset, shape, std::move(strides)};
    std::int64_t last = offset;
    for (std::size_t d = 0; d < shape.size(); ++d) {
      last += std::max<std::int64_t>(shape[d] - 1, 0) * layout.strides[d];
    }
    words.assign((static_cast<std::size_t>(last) + 1) * size_bytes(dtype) / 8 + 4, ~0ull);
  }
  char* data() {  // 16-byte aligned
    const auto address = reinterpret_cast<std::uintptr_t>(words.data());
    return reinterpret_cast<char*>((address + 15) / 16 * 16);
  }
  std::int64_t place(const Longs& index) const {  // aligned at the right; size 1 repeats
    std::int64_t at = layout.offset;
    const std::size_t skip = index.size() - layout.shape.size();
    for (std::size_t d = 0; d < layout.shape.size(); ++d) {
      if (layout.shape[d] != 1) at += index[skip + d] * layout.strides[d];
    }
    return at;
  }
  double get(const Longs& index) { return load_element(data(), dtype, place(index)); }
  void set(const Longs& index, double x) { store_element(data(), dtype, place(index), x); }
  BoundTensor bound() { return {data(), layout}; }
};

void for_each_index(const Longs& shape, const std::function<void(const Longs&)>& body) {
  Longs index(shape.size(), 0);
  for (std::int64_t size : shape) {
    if (size == 0) return;
  }
  while (true) {
    body(index);
    std::size_t d = shape.size();
    while (d > 0 && ++index[d - 1] == shape[d - 1]) index[--d] = 0;
    if (d == 0) return;
  }
}

void fill(Memory& memory, std::mt19937_64& random) {
  std::normal_distribution<double> normal;
  for_each_index(memory.layout.shape,
                 [&](const Longs& index) { memory.set(index, normal(random)); });
}

// A tail whose values are numbered in the order given: loads, then stores. The scalar is value 0.
struct TailCase {
  plan::Plan plan;
  plan::Tail tail;
  Bound bound;

  explicit TailCase(const Longs& shape) {
    for (std::int64_t size : shape) tail.shape.push_back(Dim(size));
    bound.tensors.resize(1);
    bound.scalars.assign(16, 0.0);
  }
  void load(Memory& memory, plan::Access access) {
    const auto value = static_cast<ir::ValueId>(bound.tensors.size());
    tail.epilogue.loads.push_back({"x", value, memory.dtype, access});
    bound.tensors.push_back(memory.bound());
  }
  void store(Memory& memory, plan::StoreKind kind) {
    const auto value = static_cast<ir::ValueId>(bound.tensors.size());
    tail.epilogue.stores.push_back({"y", value, memory.dtype, kind, 0});
    bound.tensors.push_back(memory.bound());
  }

  template <class Tail>
  void run(int num_sms) {
    const TailShape shape = tail_shape(tail.epilogue);
    ASSERT_EQ(shape.vector, Tail::kVector);
    ASSERT_EQ(shape.chunks, Tail::kChunks);
    const Launch launch = tail_launch(plan, tail, bound, {num_sms});
    if (launch.grid == 0) return;
    abi::TailParams params;
    ASSERT_EQ(launch.params.size(), sizeof params);
    std::memcpy(&params, launch.params.data(), sizeof params);
    device_on_host::launch(launch.grid, launch.block, [&] {
      switch (shape.kind) {
        case TailKind::elementwise: return tail::elementwise<Tail>(params);
        case TailKind::row_reduction: return tail::row_reduction<Tail>(params);
        case TailKind::column_reduction: return tail::column_reduction<Tail>(params);
        default:
          if constexpr (Blocks<typename Tail::Epilogue>::kRows > 1) {
            tail::squares<Tail>(params);
          } else if constexpr (Blocks<typename Tail::Epilogue>::kCount > 0) {
            tail::blocks<Tail>(params);
          }
      }
    });
  }
};

// (tile * parameter + row) * col - scalar, as bf16 and as f32.
struct MixedEpilogue {
  using Rows = Types<F32>;
  using Cols = Types<F16>;
  using Tiles = Types<Bf16>;
  using Scalars = Types<F32>;
  using Stores = Types<Bf16, F32>;
  static constexpr int kNumParameters = 1;
  static float value(float tile, float row, float col, float scalar, float parameter) {
    return (tile * parameter + row) * col - scalar;
  }
  static void apply(const Operands<MixedEpilogue>& x, float (&out)[2]) {
    out[0] = out[1] = value(x.tile[0], x.row[0], x.col[0], x.scalar[0], x.parameter[0]);
  }
};
struct MixedTail {
  using Epilogue = MixedEpilogue;
  static constexpr int kVector = 8, kChunks = 2;
  static constexpr tail::Reduce kReduce[] = {tail::Reduce::none, tail::Reduce::none};
  static constexpr bool kLooksUp = false;
  static constexpr bool kPutsRows = false;
};

struct Layouts {
  const char* name;
  Longs shape, tile, y, z;  // strides
  std::int64_t tile_offset = 0;
};

void check_mixed(const Layouts& layouts) {
  SCOPED_TRACE(layouts.name);
  std::mt19937_64 random(7);
  const Longs& shape = layouts.shape;
  Longs col_shape = shape;
  col_shape.back() = 1;
  Memory tile(DType::bf16, shape, layouts.tile, layouts.tile_offset);
  Memory row(DType::f32, {shape.back()}, {1});
  Memory col(DType::f16, col_shape, TensorView::dense_strides(col_shape));
  Memory scalar(DType::f32, {}, {});
  Memory y(DType::bf16, shape, layouts.y), z(DType::f32, shape, layouts.z);
  for (Memory* memory : {&tile, &row, &col, &scalar}) fill(*memory, random);

  TailCase test(shape);
  test.tail.epilogue.loads.push_back({"p", 0, DType::f32, plan::Access::parameter});
  test.bound.scalars[0] = 1.5;
  test.load(scalar, plan::Access::scalar);
  test.load(tile, plan::Access::tile);
  test.load(col, plan::Access::col);
  test.load(row, plan::Access::row);
  test.store(y, plan::StoreKind::tile);
  test.store(z, plan::StoreKind::tile);
  test.run<MixedTail>(1);

  const auto f = [](double x) { return static_cast<float>(x); };
  for_each_index(shape, [&](const Longs& index) {
    const float expected = MixedEpilogue::value(f(tile.get(index)), f(row.get(index)),
                                                f(col.get(index)), f(scalar.get(index)), 1.5f);
    ASSERT_EQ(f(z.get(index)), expected);
    ASSERT_EQ(y.get(index), round_to(expected, DType::bf16));
  });
}

TEST(TailKernel, ElementwiseOverAnyLayout) {
  const Layouts all[] = {
      {"one element", {1, 1}, {1, 1}, {1, 1}, {1, 1}},
      {"dense", {17, 64}, {64, 1}, {64, 1}, {64, 1}},
      {"odd columns", {17, 127}, {127, 1}, {127, 1}, {127, 1}},
      {"padded, aligned", {9, 61}, {64, 1}, {72, 1}, {64, 1}},
      {"padded, not aligned", {9, 61}, {63, 1}, {65, 1}, {62, 1}},
      {"starts off alignment", {5, 64}, {64, 1}, {64, 1}, {64, 1}, 3},
      {"every second column", {5, 33}, {80, 2}, {33, 1}, {40, 1}},
      {"column-major operand", {40, 24}, {1, 40}, {24, 1}, {24, 1}},
      {"column-major results", {40, 24}, {24, 1}, {1, 40}, {1, 40}},
      {"more than one turn a block", {280, 520}, {520, 1}, {520, 1}, {520, 1}},
      {"batched", {3, 5, 24}, {120, 24, 1}, {120, 24, 1}, {120, 24, 1}},
      {"dims swapped", {3, 5, 16}, {16, 48, 1}, {80, 16, 1}, {80, 16, 1}},
      {"four dims", {2, 3, 5, 8}, {8, 240, 16, 1}, {120, 40, 8, 1}, {200, 60, 12, 1}},
      {"repeated rows", {6, 40}, {0, 1}, {40, 1}, {40, 1}},
      {"no rows", {0, 8}, {8, 1}, {8, 1}, {8, 1}},
      {"no columns", {8, 0}, {0, 1}, {0, 1}, {0, 1}},
  };
  for (const Layouts& layouts : all) check_mixed(layouts);
}

// x as it is, its sums and its maxima.
template <DType kDType, class Element>
struct ReduceEpilogue {
  using Rows = Types<>;
  using Cols = Types<>;
  using Tiles = Types<Element>;
  using Scalars = Types<>;
  using Stores = Types<F32, F32, Element>;
  static constexpr int kNumParameters = 0;
  static void apply(const Operands<ReduceEpilogue>& x, float (&out)[3]) {
    out[0] = out[1] = out[2] = x.tile[0];
  }
};
template <DType kDType, class Element>
struct ReduceTail {
  using Epilogue = ReduceEpilogue<kDType, Element>;
  static constexpr int kVector = kDType == DType::f32 ? 4 : 8, kChunks = 2;
  static constexpr tail::Reduce kReduce[] = {tail::Reduce::sum, tail::Reduce::max,
                                             tail::Reduce::none};
  static constexpr bool kLooksUp = false;
  static constexpr bool kPutsRows = false;
};

// A value is bit-equal to one of `values`, or both are NaN.
bool same(double a, double b) { return a == b || (std::isnan(a) && std::isnan(b)); }

template <DType kDType, class Element>
void check_reduction(const Longs& shape, bool along_rows, bool with_nan, int num_sms) {
  SCOPED_TRACE(testing::Message() << "shape " << testing::PrintToString(shape) << " rows "
                                  << along_rows << " nan " << with_nan << " sms " << num_sms);
  std::mt19937_64 random(11);
  const std::size_t reduced = along_rows ? shape.size() - 1 : shape.size() - 2;
  Longs small = shape;
  small[reduced] = 1;
  Memory x(kDType, shape, TensorView::dense_strides(shape)), copy = x;
  Memory sum(DType::f32, small, TensorView::dense_strides(small)), max = sum;
  fill(x, random);
  if (with_nan) x.set(Longs(shape.size(), 0), std::nan(""));

  TailCase test(shape);
  test.load(x, plan::Access::tile);
  test.store(sum, along_rows ? plan::StoreKind::row_sum : plan::StoreKind::col_sum);
  test.store(max, along_rows ? plan::StoreKind::row_max : plan::StoreKind::col_max);
  test.store(copy, plan::StoreKind::tile);
  test.run<ReduceTail<kDType, Element>>(num_sms);

  for_each_index(shape, [&](const Longs& at) { ASSERT_TRUE(same(copy.get(at), x.get(at))); });
  for_each_index(small, [&](const Longs& at) {
    double expected_sum = 0, magnitude = 0, expected_max = -HUGE_VAL;
    Longs index = at;
    for (index[reduced] = 0; index[reduced] < shape[reduced]; ++index[reduced]) {
      const double value = x.get(index);
      expected_sum += value;
      magnitude += std::fabs(value);
      if (!(value <= expected_max) && !std::isnan(expected_max)) expected_max = value;
    }
    ASSERT_TRUE(same(max.get(at), expected_max)) << max.get(at) << " for " << expected_max;
    const double allowed = std::ldexp(static_cast<double>(shape[reduced]) * magnitude, -24);
    ASSERT_TRUE(same(sum.get(at), expected_sum) || std::fabs(sum.get(at) - expected_sum) <= allowed)
        << sum.get(at) << " for " << expected_sum;
  });
}

TEST(TailKernel, ReductionsOfAnySize) {
  const Longs shapes[] = {{1, 1},   {3, 0},   {0, 8},    {17, 64},     {127, 33},    {2, 1100},
                          {520, 8}, {3, 500}, {3, 5, 9}, {2, 3, 4, 6}, {2, 130, 40}, {3, 0, 5}};
  for (const Longs& shape : shapes) {
    for (bool along_rows : {true, false}) {
      check_reduction<DType::bf16, Bf16>(shape, along_rows, false, 1);
    }
  }
}

TEST(TailKernel, NanWinsEveryReduction) {
  for (const Longs& shape : {Longs{17, 64}, Longs{2, 600}, Longs{3, 5, 9}}) {
    for (bool along_rows : {true, false}) {
      check_reduction<DType::f32, F32>(shape, along_rows, true, 3);
    }
  }
}

TEST(TailKernel, SumsOfReductionsDoNotDependOnTheRun) {
  std::mt19937_64 random(3);
  Memory x(DType::f32, {4, 700}, {700, 1});
  Memory first(DType::f32, {4, 1}, {1, 1}), max = first, second = first, copy = x;
  fill(x, random);
  for (Memory* sum : {&first, &second}) {
    TailCase test({4, 700});
    test.load(x, plan::Access::tile);
    test.store(*sum, plan::StoreKind::row_sum);
    test.store(max, plan::StoreKind::row_max);
    test.store(copy, plan::StoreKind::tile);
    test.run<ReduceTail<DType::f32, F32>>(1);
  }
  EXPECT_EQ(first.words, second.words);
}

// How far x is below the largest of its block, and that.
template <int kRows>
struct BlocksEpilogue {
  using Rows = Types<>;
  using Cols = Types<>;
  using Tiles = Types<Bf16>;
  using Scalars = Types<>;
  using Stores = Types<F32, F32>;
  static constexpr int kNumParameters = 0;
  static constexpr int kNumBlocks = 1;
  static constexpr unsigned kBlockStores = 2;
  static constexpr int kRowsOfBlock = kRows;
  static void measure(const Operands<BlocksEpilogue>& x, float (&out)[1]) { out[0] = x.tile[0]; }
  static void apply(const Operands<BlocksEpilogue>& x, float (&out)[2]) {
    out[0] = x.tile[0] - x.block[0];
    out[1] = x.block[0];
  }
};
template <int kRows>
struct BlocksTail {
  using Epilogue = BlocksEpilogue<kRows>;
  static constexpr int kVector = 4, kChunks = 1;
  static constexpr tail::Reduce kReduce[] = {tail::Reduce::none, tail::Reduce::none};
  static constexpr bool kLooksUp = false;
  static constexpr bool kPutsRows = false;
};

template <int kRows>
void check_blocks(const Longs& shape, std::int64_t padding, bool column_major, bool with_nan) {
  SCOPED_TRACE(testing::Message() << "shape " << testing::PrintToString(shape) << " padding "
                                  << padding << " nan " << with_nan);
  const std::int64_t m = shape[0], n = shape[1], down = m / kRows, across = (n + 127) / 128;
  Memory x(DType::bf16, shape, {n + padding, 1}), y(DType::f32, shape, {n, 1});
  Memory tops(DType::f32, {down, across}, column_major ? Longs{1, down} : Longs{across, 1});
  std::mt19937_64 random(5);
  fill(x, random);
  if (with_nan) x.set({m - 1, n - 1}, std::nan(""));
  TailCase test(shape);
  test.load(x, plan::Access::tile);
  test.store(y, plan::StoreKind::tile);
  test.store(tops, plan::StoreKind::block_first);
  test.tail.epilogue.computes.push_back({ir::Op::block_max, {0, -1, -1}});
  test.tail.epilogue.block_rows = kRows;
  test.run<BlocksTail<kRows>>(2);
  for_each_index({down, across}, [&](const Longs& block) {
    double top = -INFINITY;
    const std::int64_t columns = std::min<std::int64_t>(128, n - block[1] * 128);
    const auto place = [&](const Longs& at) {
      return Longs{block[0] * kRows + at[0], block[1] * 128 + at[1]};
    };
    for_each_index({kRows, columns}, [&](const Longs& at) {
      const double value = x.get(place(at));
      top = std::isnan(top) || top > value ? top : value;
    });
    ASSERT_TRUE(same(tops.get(block), top));
    for_each_index({kRows, columns}, [&](const Longs& at) {
      const double value = static_cast<float>(x.get(place(at))) - static_cast<float>(top);
      ASSERT_TRUE(same(y.get(place(at)), value));
    });
  });
}

TEST(TailKernel, MaximaOfBlocks) {
  for (const Longs& shape : {Longs{1, 1}, Longs{5, 128}, Longs{3, 200}, Longs{40, 517}}) {
    for (const bool other : {false, true}) check_blocks<1>(shape, other ? 3 : 0, other, other);
  }
}

TEST(TailKernel, MaximaOfSquares) {
  for (const Longs& shape : {Longs{128, 128}, Longs{384, 256}}) {
    for (const bool other : {false, true}) check_blocks<128>(shape, other ? 3 : 0, other, other);
  }
}

}  // namespace
}  // namespace epifuse::codegen
