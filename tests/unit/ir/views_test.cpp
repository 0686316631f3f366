// Layouts of views: known cases, and random chains of views against index arithmetic.
#include "ir/views.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <numeric>
#include <random>

#include "epifuse/error.h"
#include "epifuse/tensor.h"
#include "small_graph.h"

namespace epifuse::ir {

bool operator==(const Layout& a, const Layout& b) {
  return a.offset == b.offset && a.shape == b.shape && a.strides == b.strides;
}

namespace {

using Ints = std::vector<std::int64_t>;
const Dim kM("M"), kN("N"), kB("B");

TEST(Storage, IsTheLastValueThatIsNoView) {
  SmallGraph g;
  const ValueId x = g.input("x", DType::f32, {4, 6});
  const ValueId t = g.transpose(x, {1, 0});
  const ValueId s = g.slice(t, {{0, 6, 2}, {0, 4}});
  const ValueId y = g.apply(Op::relu, {s});
  const ValueId r = g.reshape(y, {12});
  EXPECT_EQ(storage(g.graph, x), x);
  EXPECT_EQ(storage(g.graph, s), x);
  EXPECT_EQ(storage(g.graph, r), y);
}

TEST(Varies, FollowsSizesStridesAndViews) {
  using Bools = std::vector<bool>;
  SmallGraph g;
  const ValueId bias = g.input("bias", DType::f32, {kN});
  const ValueId stuck = g.input("stuck", DType::f32, {kM, kN}, {1, 0});
  const ValueId x = g.input("x", DType::f32, {kB, kM, 1});
  EXPECT_EQ(varies(g.graph, bias), (Bools{true}));
  EXPECT_EQ(varies(g.graph, g.broadcast(bias, {kM, kN})), (Bools{false, true}));
  EXPECT_EQ(varies(g.graph, g.reshape(bias, {1, kN, 1})), (Bools{false, true, false}));
  EXPECT_EQ(varies(g.graph, stuck), (Bools{true, false}));
  EXPECT_EQ(varies(g.graph, g.transpose(stuck, {1, 0})), (Bools{false, true}));
  EXPECT_EQ(varies(g.graph, g.slice(stuck, {{3, 4}, {0, kN}})), (Bools{false, false}));
  const ValueId wide = g.broadcast(x, {kB, kM, kN});
  EXPECT_EQ(varies(g.graph, wide), (Bools{true, true, false}));
  EXPECT_EQ(varies(g.graph, g.reshape(wide, {kB * kM, kN})), (Bools{true, false}));
  EXPECT_EQ(varies(g.graph, g.reshape(wide, {kB, kM * kN})), (Bools{true, true}));
  EXPECT_EQ(varies(g.graph, g.broadcast(g.scalar("a"), {kM})), (Bools{false}));
}

TEST(UnitStrideDim, FollowsViews) {
  SmallGraph g;
  const ValueId x = g.input("x", DType::f32, {kB, kM, 64});
  const ValueId col_major = g.input("c", DType::f32, {kM, kN}, {1, kM});
  const ValueId loose = g.input("l", DType::f32, {kM, kN}, {kN * 2, 2});
  EXPECT_EQ(unit_stride_dim(g.graph, x), 2);
  EXPECT_EQ(unit_stride_dim(g.graph, col_major), 0);
  EXPECT_EQ(unit_stride_dim(g.graph, loose), std::nullopt);
  EXPECT_EQ(unit_stride_dim(g.graph, g.transpose(x, {2, 0, 1})), 0);
  EXPECT_EQ(unit_stride_dim(g.graph, g.transpose(col_major, {1, 0})), 1);
  EXPECT_EQ(unit_stride_dim(g.graph, g.slice(x, {{0, kB}, {0, kM}, {8, 16}})), 2);
  EXPECT_EQ(unit_stride_dim(g.graph, g.slice(x, {{0, kB}, {0, kM}, {0, 64, 2}})), std::nullopt);
  EXPECT_EQ(unit_stride_dim(g.graph, g.reshape(x, {kB * kM, 8, 8})), 2);
  EXPECT_EQ(unit_stride_dim(g.graph, g.reshape(x, {kB, kM * 64, 1})), 1);
  const ValueId column = g.input("column", DType::f32, {kM, 1});
  EXPECT_EQ(unit_stride_dim(g.graph, g.broadcast(column, {kM, kN})), std::nullopt);
  EXPECT_EQ(unit_stride_dim(g.graph, g.constant(1)), std::nullopt);
}

TEST(Resolve, KnownCases) {
  SmallGraph g;
  const Sizes sizes = {{"M", 3}, {"N", 8}};
  const ValueId x = g.input("x", DType::f32, {kM, kN});
  const Layout padded{0, {3, 8}, {10, 1}};
  const auto layout = [&](ValueId id) { return resolve(g.graph, id, padded, sizes); };
  EXPECT_EQ(layout(x), padded);
  EXPECT_EQ(layout(g.transpose(x, {1, 0})), (Layout{0, {8, 3}, {1, 10}}));
  EXPECT_EQ(layout(g.slice(x, {{1, kM}, {2, 7, 2}})), (Layout{12, {2, 3}, {10, 2}}));
  EXPECT_EQ(layout(g.reshape(x, {kM, 1, kN, 1})), (Layout{0, {3, 1, 8, 1}, {10, 8, 1, 1}}));
  EXPECT_EQ(layout(g.reshape(x, {kM * kN})), std::nullopt);  // rows are padded
  EXPECT_EQ(layout(g.broadcast(x, {5, kM, kN})), (Layout{0, {5, 3, 8}, {0, 10, 1}}));
  EXPECT_EQ(layout(g.slice(x, {{kM, kM}, {0, kN}})), (Layout{0, {0, 8}, {10, 1}}));
  const Layout misaligned{100, {3, 8}, {8, 1}};
  EXPECT_EQ(resolve(g.graph, g.reshape(x, {kM * kN}), misaligned, sizes), (Layout{100, {24}, {1}}));
}

TEST(Resolve, EmptyTensorsReshapeFreely) {
  SmallGraph g;
  const ValueId x = g.input("x", DType::f32, {kM, 6});
  const ValueId y = g.reshape(g.transpose(x, {1, 0}), {2, 3 * kM});
  EXPECT_EQ(resolve(g.graph, y, {0, {0, 6}, {6, 1}}, {{"M", 0}}), (Layout{0, {2, 0}, {0, 1}}));
}

TEST(Resolve, SlicesOutOfBoundsAreErrors) {
  SmallGraph g;
  const ValueId x = g.input("x", DType::f32, {kM});
  const ValueId y = g.slice(x, {{0, 4}});
  EXPECT_EQ(resolve(g.graph, y, {0, {4}, {1}}, {{"M", 4}}), (Layout{0, {4}, {1}}));
  try {
    resolve(g.graph, y, {0, {3}, {1}}, {{"M", 3}});
    FAIL() << "read past the end";
  } catch (const ArgumentError& error) {
    EXPECT_STREQ(error.what(), "slice 't1' takes 0:4 of dim 0, which has size 3");
  }
}

TEST(Resolve, SlicesOfHugeStepsHaveTheirFirstElement) {
  constexpr std::int64_t kHuge = std::numeric_limits<std::int64_t>::max();
  SmallGraph g;
  const ValueId x = g.input("x", DType::f32, {10, 7});
  const ValueId s = g.slice(x, {{0, 10, kHuge}, {1, 7, kHuge}});
  EXPECT_EQ(g.graph[s].type.shape, (Shape{1, 1}));
  EXPECT_EQ(resolve(g.graph, s, {0, {10, 7}, {7, 1}}, {{"N", 7}}), (Layout{1, {1, 1}, {7, 1}}));
}

TEST(Eval, RefusesShapesThatWrap) {
  const Sizes sizes{{"M", std::int64_t{1} << 32}, {"N", std::int64_t{1} << 32}, {"B", 0}};
  EXPECT_THROW(eval({kM, kN}, sizes), ArgumentError);
  EXPECT_THROW(eval({kB, kM, kN}, sizes), ArgumentError);  // strides of it would
  EXPECT_THROW(eval({kM * 512}, sizes), ArgumentError);
  EXPECT_EQ(eval({kB, kM}, sizes), (Ints{0, std::int64_t{1} << 32}));
  EXPECT_THROW(eval_strides({kM, 1}, {kN, 2}, sizes), ArgumentError);
  EXPECT_EQ(eval_strides({kM, 1}, {8, 2}, sizes), (Ints{std::int64_t{1} << 32, 1}));
}

TEST(Eval, RefusesNegativeSizes) {
  EXPECT_EQ(eval({kM, 2 * kM - 1}, {{"M", 3}}), (Ints{3, 5}));
  EXPECT_THROW(eval({kM - 4}, {{"M", 3}}), ArgumentError);
}

// A value and where each of its elements, in row-major order, lies in storage.
struct Elements {
  ValueId id;
  Ints shape, places;
};

Ints unravel(std::int64_t i, const Ints& shape) {
  Ints index(shape.size());
  for (std::size_t d = shape.size(); d-- > 0; i /= shape[d]) index[d] = i % shape[d];
  return index;
}

std::int64_t dot(const Ints& a, const Ints& b) {
  return std::inner_product(a.begin(), a.end(), b.begin(), std::int64_t{0});
}

std::int64_t num_elements(const Ints& shape) {
  return std::accumulate(shape.begin(), shape.end(), std::int64_t{1}, std::multiplies<>());
}

// Grows a random chain of views node by node, each with its elements found by plain indexing.
class RandomViews {
 public:
  explicit RandomViews(unsigned seed) : random_(seed) {
    const std::size_t rank = 1 + pick(4);
    Shape shape;
    for (std::size_t d = 0; d < rank; ++d) {
      const std::int64_t size = 1 + static_cast<std::int64_t>(pick(4));
      const std::string symbol = "S" + std::to_string(d);
      sizes_[symbol] = size;
      const bool symbolic = pick(3) == 0 && size > 1;
      shape.push_back(symbolic ? Dim(symbol) : Dim(size));
      storage_.shape.push_back(size);
    }
    storage_.strides = random_strides();
    current_ = {g_.input("x", DType::f32, shape), storage_.shape, {}};
    for (std::int64_t i = 0; i < num_elements(storage_.shape); ++i) {
      current_.places.push_back(dot(unravel(i, storage_.shape), storage_.strides));
    }
  }

  void grow() {
    switch (pick(4)) {
      case 0: return transpose();
      case 1: return slice();
      case 2: return broadcast();
      default: return reshape();
    }
  }

  const Graph& graph() const { return g_.graph; }
  const Elements& current() const { return current_; }
  std::optional<Layout> resolved() const {
    return resolve(g_.graph, current_.id, storage_, sizes_);
  }
  // What symbols say, at these sizes; empty where they say nothing and of padded storage.
  std::optional<Layout> expected() const {
    const std::optional<SymbolicLayout> layout = expected_layout(g_.graph, current_.id);
    const bool is_dense = storage_.strides == TensorView::dense_strides(storage_.shape);
    if (!layout || !is_dense) return std::nullopt;
    Layout numbers{layout->offset.eval(sizes_), {}, {}};
    for (const Dim& dim : layout->shape) numbers.shape.push_back(dim.eval(sizes_));
    for (const Dim& dim : layout->strides) numbers.strides.push_back(dim.eval(sizes_));
    return numbers;
  }

 private:
  std::size_t pick(std::size_t count) { return random_() % count; }
  const Shape& dims() const { return g_.type(current_.id).shape; }

  // Dense, or with padding after each row.
  Ints random_strides() {
    Ints strides(storage_.shape.size());
    std::int64_t stride = 1;
    for (std::size_t d = strides.size(); d-- > 0;) {
      strides[d] = stride;
      stride *= storage_.shape[d] + (pick(3) == 0 ? 1 : 0);
    }
    return strides;
  }

  // Makes `id` current: element `index` of it is element source(index) of what was current.
  template <typename Source>
  void advance(ValueId id, Source source) {
    Elements next{id, eval(g_.type(id).shape, sizes_), {}};
    const Ints strides = TensorView::dense_strides(current_.shape);
    for (std::int64_t i = 0; i < num_elements(next.shape); ++i) {
      const Ints from = source(unravel(i, next.shape));
      next.places.push_back(current_.places[static_cast<std::size_t>(dot(from, strides))]);
    }
    current_ = std::move(next);
  }

  void transpose() {
    std::vector<int> permutation(dims().size());
    std::iota(permutation.begin(), permutation.end(), 0);
    std::shuffle(permutation.begin(), permutation.end(), random_);
    advance(g_.transpose(current_.id, permutation), [&](const Ints& index) {
      Ints from(index.size());
      for (std::size_t d = 0; d < index.size(); ++d) {
        from[static_cast<std::size_t>(permutation[d])] = index[d];
      }
      return from;
    });
  }

  void slice() {
    std::vector<SliceRange> ranges;
    Ints starts, steps;
    for (std::size_t d = 0; d < dims().size(); ++d) {
      const auto size = static_cast<std::size_t>(current_.shape[d]);
      const std::size_t start = pick(size), stop = start + 1 + pick(size - start);
      const bool whole = pick(2) == 0;
      ranges.push_back({0, dims()[d]});
      if (!whole) {
        ranges.back() = {static_cast<std::int64_t>(start), static_cast<std::int64_t>(stop),
                         1 + static_cast<std::int64_t>(pick(3))};
      }
      starts.push_back(whole ? 0 : static_cast<std::int64_t>(start));
      steps.push_back(ranges.back().step);
    }
    advance(g_.slice(current_.id, ranges), [&](const Ints& index) {
      Ints from(index.size());
      for (std::size_t d = 0; d < index.size(); ++d) from[d] = starts[d] + index[d] * steps[d];
      return from;
    });
  }

  void broadcast() {
    Shape shape = dims();
    for (Dim& dim : shape) {
      if (dim.is(1) && pick(2) == 0) dim = 3;
    }
    if (shape.size() < 6 && pick(3) == 0) shape.insert(shape.begin(), 2);
    const Ints before = current_.shape;
    advance(g_.broadcast(current_.id, shape), [&](const Ints& index) {
      Ints from(index.end() - static_cast<std::ptrdiff_t>(before.size()), index.end());
      for (std::size_t d = 0; d < from.size(); ++d) from[d] = before[d] == 1 ? 0 : from[d];
      return from;
    });
  }

  // Merges neighbours, splits constants, puts in or takes out dims of size 1.
  void reshape() {
    Shape shape;
    for (const Dim& dim : dims()) {
      if (!shape.empty() && pick(2) == 0) {
        shape.back() = shape.back() * dim;
      } else if (!dim.is(1) || pick(2) == 0) {
        shape.push_back(dim);
      }
    }
    for (std::size_t d = 0; d < shape.size() && shape.size() < 6; ++d) {
      if (const std::optional<Dim> half = shape[d].divide(2); half && pick(2) == 0) {
        shape[d] = 2;
        shape.insert(shape.begin() + static_cast<std::ptrdiff_t>(d) + 1, *half);
      }
    }
    if (shape.size() < 6 && pick(3) == 0) {
      shape.insert(shape.begin() + static_cast<std::ptrdiff_t>(pick(shape.size() + 1)), 1);
    }
    const Elements before = current_;
    current_.id = g_.reshape(before.id, shape);
    current_.shape = eval(shape, sizes_);  // the elements keep their row-major order
  }

  std::mt19937 random_;
  SmallGraph g_;
  Sizes sizes_;
  Layout storage_;
  Elements current_;
};

// The strides that the places themselves show; empty when they follow none.
std::optional<Ints> strides_of(const Elements& elements) {
  const Ints dense = TensorView::dense_strides(elements.shape);
  Ints strides(dense.size(), 0);
  for (std::size_t d = 0; d < dense.size(); ++d) {
    if (elements.shape[d] > 1) {
      strides[d] = elements.places[static_cast<std::size_t>(dense[d])] - elements.places[0];
    }
  }
  for (std::size_t i = 0; i < elements.places.size(); ++i) {
    const Ints index = unravel(static_cast<std::int64_t>(i), elements.shape);
    if (elements.places[i] != elements.places[0] + dot(index, strides)) return std::nullopt;
  }
  return strides;
}

void expect_layout(const Elements& elements, const Layout& layout) {
  ASSERT_EQ(layout.shape, elements.shape);
  for (std::size_t i = 0; i < elements.places.size(); ++i) {
    const Ints index = unravel(static_cast<std::int64_t>(i), elements.shape);
    ASSERT_EQ(layout.offset + dot(index, layout.strides), elements.places[i]);
  }
}

// What is said before sizes are known must hold for these.
void expect_sound(const Graph& graph, const Elements& elements, const Ints& strides) {
  const std::vector<bool> moves = varies(graph, elements.id);
  const std::optional<int> unit = unit_stride_dim(graph, elements.id);
  ASSERT_EQ(moves.size(), elements.shape.size());
  for (std::size_t d = 0; d < moves.size(); ++d) {
    if (elements.shape[d] == 1) continue;
    if (!moves[d]) {
      ASSERT_EQ(strides[d], 0) << "dim " << d << " moves";
    }
    if (unit == static_cast<int>(d)) {
      ASSERT_EQ(strides[d], 1) << "dim " << d << " is not contiguous";
    }
  }
}

TEST(Resolve, RandomChainsAgreeWithIndexArithmetic) {
  int num_resolved = 0, num_unresolved = 0, num_expected = 0;
  for (unsigned seed = 0; seed < 3000; ++seed) {
    SCOPED_TRACE(seed);
    RandomViews views(seed);
    for (int step = 0; step < 6 && num_elements(views.current().shape) < 2000; ++step) {
      views.grow();
      const std::optional<Layout> layout = views.resolved();
      const std::optional<Ints> strides = strides_of(views.current());
      ASSERT_EQ(layout.has_value(), strides.has_value());
      ++(layout ? num_resolved : num_unresolved);
      if (!layout) break;  // later views may hide that one reshape has no strides
      expect_layout(views.current(), *layout);
      expect_sound(views.graph(), views.current(), *strides);
      if (const std::optional<Layout> expected = views.expected()) {
        expect_layout(views.current(), *expected);
        ++num_expected;
      }
      if (HasFatalFailure()) return;
    }
  }
  EXPECT_GT(num_expected, 1000);
  EXPECT_GT(num_resolved, 5000);
  EXPECT_GT(num_unresolved, 200);
}

}  // namespace
}  // namespace epifuse::ir
