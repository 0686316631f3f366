// Gated products on the CPU: the layouts of their weights make no difference to a single bit.
#include <gtest/gtest.h>

#include <cstring>

#include "tests/unit/backends/cpu_harness.h"

namespace epifuse::cpu {
namespace {

struct Layout {
  const char* name;
  bool is_separate, by_turns, is_nn;
};
constexpr Layout kLayouts[] = {
    {"halves", false, false, false},       {"interleaved", false, true, false},
    {"separate", true, false, false},      {"halves nn", false, false, true},
    {"interleaved nn", false, true, true}, {"separate nn", true, false, true},
};

std::string graph_text(const Layout& layout, const char* dtype) {
  const std::string type(dtype);
  const auto weight = [&](const char* columns) {
    return layout.is_nn ? type + "[K, " + columns + "]" : type + "[" + columns + ", K]";
  };
  const std::string t = layout.is_nn ? "" : "^T";
  const std::string end = "  s = silu g\n  y = mul s, u\n  return y\n}\n";
  if (layout.is_separate) {
    return "graph g(x: " + type + "[M, K], v: " + weight("N") + ", w: " + weight("N") +
           ") {\n  g = matmul x, v" + t + "\n  u = matmul x, w" + t + "\n" + end;
  }
  const std::string ranges[2] = {layout.by_turns ? "[:, ::2]" : "[:, :N]",
                                 layout.by_turns ? "[:, 1::2]" : "[:, N:]"};
  return "graph g(x: " + type + "[M, K], w: " + weight("2*N") + ", n: " + type +
         "[N]) {\n  h = matmul x, w" + t + "\n  g = slice h " + ranges[0] + "\n  u = slice h " +
         ranges[1] + "\n" + end;
}

// The element of the given column (of both products, gate first) and k.
std::size_t place(const Layout& layout, std::int64_t product, std::int64_t column, std::int64_t k,
                  std::int64_t num_columns, std::int64_t num_k) {
  const std::int64_t wide = layout.is_separate ? num_columns : 2 * num_columns;
  std::int64_t at = layout.is_separate ? column : product * num_columns + column;
  if (layout.by_turns) at = 2 * column + product;
  return static_cast<std::size_t>(layout.is_nn ? k * wide + at : at * num_k + k);
}

std::vector<unsigned char> result_of(const Layout& layout, DType dtype, std::int64_t m,
                                     std::int64_t n, std::int64_t k) {
  const CpuProgram program(graph_text(layout, dtype == DType::f32 ? "f32" : "bf16"));
  EXPECT_EQ(program.plan().steps.size(), 1u) << layout.name;
  HostTensor x = random_tensor(dtype, {m, k}, 1);
  const HostTensor weights = random_tensor(dtype, {2, n, k}, 2);
  const std::size_t bytes = size_bytes(dtype);
  const std::int64_t wide = layout.is_separate ? n : 2 * n;
  const std::vector<std::int64_t> shape =
      layout.is_nn ? std::vector<std::int64_t>{k, wide} : std::vector<std::int64_t>{wide, k};
  HostTensor v(dtype, shape), w(dtype, shape), unused(dtype, {n}), y(dtype, {m, n});
  const auto put = [&](std::int64_t product, std::int64_t column, std::int64_t depth) {
    HostTensor& to = layout.is_separate && product == 0 ? v : w;
    const auto from = static_cast<std::size_t>((product * n + column) * k + depth);
    std::memcpy(to.bytes().data() + place(layout, product, column, depth, n, k) * bytes,
                weights.bytes().data() + from * bytes, bytes);
  };
  for (std::int64_t column = 0; column < n; ++column) {
    for (std::int64_t depth = 0; depth < k; ++depth) {
      put(0, column, depth);
      put(1, column, depth);
    }
  }
  if (layout.is_separate) {
    program.run({x.bind("x"), v.bind("v"), w.bind("w"), y.bind("y")});
  } else {
    program.run({x.bind("x"), w.bind("w"), unused.bind("n"), y.bind("y")});
  }
  return {y.bytes().begin(), y.bytes().end()};
}

TEST(CpuGated, LayoutsOfTheWeightsHaveTheSameBits) {
  struct Sizes {
    std::int64_t m, n, k;
  };
  for (const DType dtype : {DType::f32, DType::bf16}) {
    for (const Sizes& s : {Sizes{1, 40, 72}, Sizes{17, 136, 64}, Sizes{127, 77, 200},
                           Sizes{300, 520, 333}, Sizes{3, 8, 1}}) {
      std::vector<unsigned char> expected;  // of weights that are contiguous along the same dim
      for (const Layout& layout : kLayouts) {
        const auto result = result_of(layout, dtype, s.m, s.n, s.k);
        if (layout.name == std::string("halves") || layout.name == std::string("halves nn")) {
          expected = result;
        }
        EXPECT_TRUE(result == expected)
            << layout.name << ' ' << name(dtype) << ' ' << s.m << 'x' << s.n << 'x' << s.k;
      }
    }
  }
}

}  // namespace
}  // namespace epifuse::cpu
