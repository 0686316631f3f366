// Products of one input: which become one kernel.
#include <gtest/gtest.h>

#include <string_view>

#include "tests/unit/partition/found.h"

namespace epifuse {
namespace {

// Rows, and what is computed of three products of x.
std::string of_one_input(std::string_view rows, std::string_view rest) {
  return fmt::format(
      "graph g(x: bf16[{}, 512], a: bf16[512, 512], b: bf16[64, 512], c: bf16[64, 512], "
      "r: bf16[512], s: bf16[64], t: bf16[64]) {{\n  q = matmul x, a^T\n  k = matmul x, b^T\n"
      "  v = matmul x, c^T\n{}}}\n",
      rows, rest);
}

TEST(FusionSideBySide, ProductsOfOneInputAreOneKernel) {
  const FusionRequest request{.in_memory = {"q", "k", "v"}};
  const auto together = [](std::string_view rows) {
    return fmt::format(
        "matmul_side_by_side(x, a, b, c) -> q[{0}, 512], k[{0}, 64], v[{0}, 64]: q k v\n", rows);
  };
  const std::string bare = "  return q, k, v\n";
  EXPECT_EQ(found(of_one_input("16", bare), request, kHopper), together("16"));
  const std::string alone = "q: nothing_to_fuse\nk: nothing_to_fuse\nv: nothing_to_fuse\n";
  for (const char* rows : {"17", "64", "65", "8192"}) {
    EXPECT_EQ(found(of_one_input(rows, bare), request, kHopper), together(rows));
  }
  EXPECT_EQ(found(of_one_input("16", bare), request), alone) << "on a CPU";
  EXPECT_EQ(found(of_one_input("16", bare), request, {DeviceKind::cuda, "sm_80"}), alone);
  EXPECT_EQ(found(of_one_input("M", bare), request, kHopper), alone) << "of any number of rows";
  FusionRequest few = request;
  few.likely_sizes = {{"M", 4}};
  EXPECT_EQ(found(of_one_input("M", bare), few, kHopper), together("M"));
}

TEST(FusionSideBySide, ProductsOfOneInputGoTogetherByTheirWork) {
  const FusionRequest request{.in_memory = {"q", "y", "z"}};
  const std::string biases = "  y = add k, s\n  z = add v, t\n  return q, y, z\n";
  EXPECT_EQ(found(of_one_input("4", biases), request, kHopper),
            "matmul_bias_side_by_side(x, b, c, s, t) -> y[4, 64], z[4, 64]: k v y z\n"
            "q: nothing_to_fuse\n");
  const std::string gate = "  y = mul k, v\n  z = add y, s\n  return q, z\n";
  EXPECT_EQ(found(of_one_input("4", gate), request, kHopper),
            "matmul_mul_bias(x, b, c, s) -> z[4, 64]: k v y z\nq: nothing_to_fuse\n")
      << "a gate has its kernel";
}

TEST(FusionSideBySide, ProductsMadeOfEachOtherAreNoLaunch) {
  const auto found_of = [](const std::string& rest, std::set<std::string, std::less<>> in_memory) {
    return found(
        "graph g(x: bf16[64, 64], w: bf16[64, 64], m: bf16[64, 64], s: bf16[64]) {\n"
        "  q = matmul x, w\n" +
            rest,
        {.in_memory = std::move(in_memory)}, kHopper);
  };
  EXPECT_EQ(found_of("  p = matmul m, q\n  u = add p, s\n  y = matmul x, u\n  return q, y\n}\n",
                     {"q", "u", "y"}),
            "matmul_bias(m, q, s) -> u[64, 64]: p u\nq: nothing_to_fuse\ny: nothing_to_fuse\n")
      << "by another kernel";
  EXPECT_EQ(found_of("  y = matmul x, q\n  return q, y\n}\n", {"q", "y"}),
            "q: nothing_to_fuse\ny: nothing_to_fuse\n")
      << "one by the other";
  EXPECT_EQ(found_of("  p = matmul m, w\n  u = add p, q\n  y = matmul x, p\n  return u, y\n}\n",
                     {"q", "p", "u", "y"}),
            "matmul_residual_output(m, w, q) -> p[64, 64], u[64, 64]: p u\nq: nothing_to_fuse\n"
            "y: nothing_to_fuse\n")
      << "by a product whose kernel waits for more";
}

TEST(FusionSideBySide, TwoLaunchesDoNotWaitForEachOther) {
  // a is made of q, and k of b: with q and k in one launch, a and b cannot be one.
  const std::string text =
      "graph g(x: bf16[64, 64], m: bf16[64, 64], w: bf16[64, 64], v: bf16[64, 64]) {\n"
      "  q = matmul x, w\n  a = matmul m, q\n  b = matmul m, v\n  k = matmul x, b\n"
      "  return q, a, b, k\n}\n";
  EXPECT_EQ(found(text, {.in_memory = {"q", "a", "b", "k"}}, kHopper),
            "matmul_side_by_side(x, w, b) -> q[64, 64], k[64, 64]: q k\n"
            "a: nothing_to_fuse\nb: nothing_to_fuse\n");
}

TEST(FusionSideBySide, WhatIsReadBySomeOfThemComesBeforeAndWhatReadsThemAfter) {
  const std::string text =
      "graph g(x: bf16[64, 64], m: bf16[64, 64], w: bf16[64, 64], s: bf16[64]) {\n"
      "  q = matmul x, w\n  c = matmul m, q\n  d = add c, s\n  e = matmul w, m\n"
      "  f = add e, s\n  k = matmul x, f\n  return d, f, k\n}\n";
  EXPECT_EQ(found(text, {.in_memory = {"q", "d", "f", "k"}}, kHopper),
            "matmul_bias(w, m, s) -> f[64, 64]: e f\n"
            "matmul_side_by_side(x, w, f) -> q[64, 64], k[64, 64]: q k\n"
            "matmul_bias(m, q, s) -> d[64, 64]: c d\n");
}

TEST(FusionSideBySide, ProductsWithWorkOfTheirOwnHaveKernelsApart) {
  const auto apart = [](const std::string& rest, std::set<std::string, std::less<>> in_memory) {
    const FusionRequest request{.in_memory = std::move(in_memory)};
    const Fusions fusions =
        find_fusions(Graph::parse(of_one_input("200", rest)), kHopper, CompileOptions{}, request);
    std::vector<std::string> all;
    for (const FusedKernel& kernel : fusions.kernels) {
      EXPECT_TRUE(kernel.apart.empty() || kernel.name.ends_with("_side_by_side"));
      for (const FusedKernel& each : kernel.apart) {
        all.push_back(fmt::format("{}: {}", each.name, fmt::join(each.values, " ")));
        EXPECT_TRUE(each.apart.empty());
      }
    }
    return all;
  };
  EXPECT_EQ(apart("  y = add k, s\n  z = add v, t\n  return q, y, z\n", {"q", "y", "z"}),
            (std::vector<std::string>{"matmul_bias: k y", "matmul_bias: v z"}));
  EXPECT_EQ(apart("  y = relu k\n  return q, y, v\n", {"q", "y", "v"}),
            (std::vector<std::string>{}))
      << "products without work stay with the framework";
}

TEST(FusionSideBySide, ProductsOfABatchGoTogetherWhereKernelsForFewRowsTakeThem) {
  const auto batched = [](std::string_view rows) {
    return fmt::format(
        "graph g(x: bf16[2, {}, 64], a: bf16[2, 64, 64], b: bf16[2, 64, 64]) {{\n"
        "  q = matmul x, a\n  k = matmul x, b\n  return q, k\n}}\n",
        rows);
  };
  const FusionRequest request{.in_memory = {"q", "k"}};
  EXPECT_EQ(found(batched("16"), request, kHopper),
            "matmul_side_by_side(x, a, b) -> q[2, 16, 64], k[2, 16, 64]: q k\n");
  EXPECT_EQ(found(batched("17"), request, kHopper), "q: nothing_to_fuse\nk: nothing_to_fuse\n");
}

TEST(FusionSideBySide, WhatReadsProductsThatGoTogetherComesBehindThem) {
  const std::string text =
      "graph g(x: bf16[4, 64], a: bf16[64, 64], b: bf16[64, 64], c: bf16[64, 64], r: bf16[4, 64]) "
      "{\n  h = matmul x, c\n  u = add h, r\n  q = matmul u, a\n  k = matmul u, b\n"
      "  t = matmul q, c\n  y = add t, r\n  return k, y\n}\n";
  EXPECT_EQ(found(text, {.in_memory = {"u", "q", "k", "y"}}, kHopper),
            "matmul_residual(x, c, r) -> u[4, 64]: h u\n"
            "matmul_side_by_side(u, a, b) -> q[4, 64], k[4, 64]: q k\n"
            "matmul_residual(q, c, r) -> y[4, 64]: t y\n");
}

}  // namespace
}  // namespace epifuse
