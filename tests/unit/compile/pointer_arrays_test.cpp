// Many problems of one graph: results against float64, and what callers are told.
#include "epifuse/pointer_arrays.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <list>
#include <random>

#include "epifuse/epifuse.h"
#include "tests/common/host_tensor.h"

namespace epifuse {
namespace {

using testing::HostTensor;

constexpr const char* kLayer =
    "graph layer(x: bf16[M, K], w: bf16[N, K], b: bf16[N], r: bf16[M, N], s: scalar) {\n"
    "  h = matmul x, w^T\n  t = add h, b\n  a = silu t\n  v = mul a, s\n  y = add v, r\n"
    "  return y\n}\n";

struct Size {
  std::int64_t m, n, k;
};

// PointerArrays of kLayer in host memory, rows longer than they need be.
struct Layers {
  explicit Layers(const std::vector<Size>& all, std::int64_t pad = 3) {
    std::mt19937 random(7);
    std::normal_distribution<double> normal;
    const auto make = [&](std::vector<std::int64_t> shape, bool is_random) -> HostTensor& {
      std::vector<std::int64_t> strides;
      if (shape.size() > 1) strides = {shape[1] + pad, 1};
      HostTensor& tensor = kept.emplace_back(DType::bf16, shape, strides);
      for (std::int64_t i = 0; is_random && i < tensor.size(); ++i) tensor.set(i, normal(random));
      return tensor;
    };
    for (const Size& size : all) {
      sizes.insert(sizes.end(), {size.k, size.m, size.n});
      x.push_back(&make({size.m, size.k}, true));
      w.push_back(&make({size.n, size.k}, true));
      b.push_back(&make({size.n}, true));
      r.push_back(&make({size.m, size.n}, true));
      y.push_back(&make({size.m, size.n}, false));
    }
    problems.count = static_cast<std::int64_t>(all.size());
    problems.symbols = {"K", "M", "N"};
    problems.sizes = sizes.data();
    problems.scalars = {{"s", 0.5}};
    add("x", x, true);
    add("w", w, true);
    add("b", b, false);
    add("r", r, true);
    add("y", y, true);
  }

  void add(const std::string& name, const std::vector<HostTensor*>& tensors, bool has_rows) {
    std::vector<const void*>& data = addresses.emplace_back();
    std::vector<std::int64_t>& strides = row_strides.emplace_back();
    for (HostTensor* tensor : tensors) {
      data.push_back(tensor->bytes().data());
      strides.push_back(has_rows ? tensor->strides().front() : 0);
    }
    problems.tensors.push_back({name, data.data(), has_rows ? strides.data() : nullptr});
  }

  // The largest error of problem i over what bf16 results may have.
  double error(std::size_t i) const {
    const std::int64_t m = x[i]->shape()[0], k = x[i]->shape()[1], n = w[i]->shape()[0];
    double worst = 0;
    for (std::int64_t row = 0; row < m; ++row) {
      for (std::int64_t col = 0; col < n; ++col) {
        double sum = 0, size = 0;
        for (std::int64_t d = 0; d < k; ++d) {
          const double term = x[i]->get(row * k + d) * w[i]->get(col * k + d);
          sum += term;
          size += std::abs(term);
        }
        sum += b[i]->get(col);
        const double residual = r[i]->get(row * n + col);
        const double exact = 0.5 * sum / (1 + std::exp(-sum)) + residual;
        const double allowed = std::ldexp(std::abs(exact), -8) + std::ldexp(size + 8, -18);
        worst = std::max(worst, std::abs(y[i]->get(row * n + col) - exact) / allowed);
      }
    }
    return worst;
  }

  std::list<HostTensor> kept;
  std::vector<HostTensor*> x, w, b, r, y;
  std::vector<std::int64_t> sizes;
  std::list<std::vector<const void*>> addresses;
  std::list<std::vector<std::int64_t>> row_strides;
  PointerArrays problems;
};

Program on_cpu(const char* text) { return compile(Graph::parse(text), Target::cpu()); }

std::string error_of(const PointerArrays& problems, const char* text = kLayer) {
  try {
    on_cpu(text).run_pointer_arrays(problems);
  } catch (const ArgumentError& error) {
    return error.what();
  }
  return "";
}

TEST(PointerArrays, EachHasItsOwnSizesAndStrides) {
  Layers layers({{3, 5, 8}, {1, 17, 16}, {0, 4, 8}, {127, 33, 24}, {64, 64, 64}, {2, 2, 0}});
  on_cpu(kLayer).run_pointer_arrays(layers.problems);
  for (std::size_t i = 0; i < layers.y.size(); ++i) {
    EXPECT_LE(layers.error(i), 1) << "problem " << i;
    EXPECT_TRUE(layers.y[i]->gaps_untouched()) << "problem " << i;
  }
}

TEST(PointerArrays, NoneAtAll) {
  Layers layers({});
  on_cpu(kLayer).run_pointer_arrays(layers.problems);
}

TEST(PointerArrays, DenseWithoutRowStrides) {
  Layers layers({{4, 6, 8}, {9, 2, 16}}, 0);
  for (ProblemTensor& tensor : layers.problems.tensors) tensor.row_strides = nullptr;
  on_cpu(kLayer).run_pointer_arrays(layers.problems);
  EXPECT_LE(std::max(layers.error(0), layers.error(1)), 1);
}

TEST(PointerArrays, OfAnyGraph) {
  const std::vector<std::int64_t> sizes{2, 3};
  HostTensor x(DType::f32, {2, 3}), y(DType::f32, {2, 1});
  for (int i = 0; i < 6; ++i) x.set(i, i);
  const std::vector<const void*> from{x.bytes().data()}, to{y.bytes().data()};
  PointerArrays problems{1, {"M", "N"}, sizes.data(), {{"x", from.data()}, {"y", to.data()}}, {}};
  on_cpu("graph g(x: f32[M, N]) {\n  y = row_sum x\n  return y\n}").run_pointer_arrays(problems);
  EXPECT_EQ(y.values(), (std::vector<double>{3, 12}));
}

TEST(PointerArrays, NamesThatDoNotFit) {
  Layers layers({{3, 5, 8}});
  PointerArrays problems = layers.problems;
  problems.symbols = {"M", "N"};
  EXPECT_EQ(error_of(problems),
            "problems of graph 'layer': expected sizes of K, M, N, got those of M, N");
  problems = layers.problems;
  problems.sizes = nullptr;
  EXPECT_EQ(error_of(problems), "problems of graph 'layer': expected an array of sizes, got null");
  problems = layers.problems;
  problems.tensors.pop_back();
  EXPECT_EQ(error_of(problems), "nothing is bound to 'y' of graph 'layer'");
  problems = layers.problems;
  problems.tensors.back().name = "z";
  EXPECT_EQ(error_of(problems),
            "graph 'layer' has no input or output 'z', or it came twice; it has x, w, b, r, y");
  problems = layers.problems;
  problems.tensors.front().data = nullptr;
  EXPECT_EQ(error_of(problems), "'x' of 1 problems: expected an array of addresses, got null");
  problems = layers.problems;
  problems.scalars.clear();
  EXPECT_EQ(error_of(problems), "nothing is bound to scalar 's' of graph 'layer'");
  problems = layers.problems;
  problems.scalars.emplace_back("t", 1.0);
  EXPECT_EQ(error_of(problems), "graph 'layer' has 1 run-time scalars, got 2");
  problems = layers.problems;
  problems.count = -1;
  EXPECT_EQ(error_of(problems), "expected a count of problems of at least 0, got -1");
}

TEST(PointerArrays, RowStridesAreForMatrices) {
  Layers layers({{3, 5, 8}});
  layers.problems.tensors[2].row_strides = layers.problems.tensors[0].row_strides;
  EXPECT_EQ(
      error_of(layers.problems),
      "'b' is declared bf16[N]: expected no row strides, which are for tensors of two dims or "
      "more without declared strides");
}

TEST(PointerArrays, OneThatIsWrongIsNamedAndNoneRuns) {
  Layers layers({{3, 5, 8}, {4, 4, 4}});
  layers.sizes[4] = -4;
  EXPECT_EQ(error_of(layers.problems), "problem 1: expected a size from 0 to 2^40 for M, got -4");
  layers.sizes[4] = 4;
  layers.addresses.front()[1] = nullptr;
  EXPECT_EQ(error_of(layers.problems),
            "problem 1: input 'x' is declared bf16[M, K]: got a null pointer");
  EXPECT_TRUE(std::isnan(layers.y[0]->get(0)));
}

TEST(PointerArrays, RowsThatFoldAreRefused) {
  Layers layers({{3, 5, 8}, {4, 4, 4}});
  layers.row_strides.front()[1] = 3;  // of x, whose rows have 4 elements
  EXPECT_EQ(error_of(layers.problems),
            "problem 1: 'x' has rows of 4 elements: expected a row stride of that to 2^40, got 3");
  layers.row_strides.front()[1] = std::numeric_limits<std::int64_t>::max();
  EXPECT_NE(error_of(layers.problems), "");
}

TEST(PointerArrays, MemoryIsShared) {
  Layers layers({{3, 5, 8}, {3, 5, 8}});
  std::vector<const void*>& y = layers.addresses.back();
  const void* own = y[1];
  const std::vector<const void*>& residuals = *std::next(layers.addresses.begin(), 3);
  y[1] = y[0];
  EXPECT_EQ(error_of(layers.problems),
            "output 'y' of problem 1 shares memory with output 'y' of problem 0: expected memory "
            "of its own");
  y[1] = residuals[0];  // the residual of another problem
  EXPECT_NE(error_of(layers.problems).find("input 'r' of problem 0"), std::string::npos);
  y[1] = residuals[1];  // its own, in place
  EXPECT_EQ(error_of(layers.problems), "");
  y[1] = own;
  EXPECT_EQ(error_of(layers.problems), "");
}

TEST(PointerArrays, ExplainsHowTheyRun) {
  EXPECT_EQ(on_cpu(kLayer).explain_pointer_arrays(),
            "One problem after another, each on all cores.");
  const Target hopper{DeviceKind::cuda, "sm_90a"};
  EXPECT_EQ(compile(Graph::parse(kLayer), hopper).explain_pointer_arrays(),
            "All problems in one launch of sm90_dense, beside one that describes them and one for "
            "those that it cannot address.");
  EXPECT_EQ(compile(Graph::parse("graph g(x: bf16[B, M, K], w: bf16[B, K, N]) {\n"
                                 "  h = matmul x, w\n  y = relu h\n  return y\n}"),
                    hopper)
                .explain_pointer_arrays(),
            "One problem after another: its product is one of batches or groups, not of two "
            "matrices. (not_matrices)");
}

}  // namespace
}  // namespace epifuse
