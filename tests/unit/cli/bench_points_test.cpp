#include "cli/bench_points.h"

#include <gtest/gtest.h>

#include <set>

#include "epifuse/error.h"
#include "ir/graph.h"

namespace epifuse::cli {
namespace {

std::string graph_text(const char* epilogue) {
  return graph_of({"dense", "layer", 16, 8, 4, epilogue}).str();
}

TEST(BenchPoints, EveryRowOfTheGridIsAGraphOfItsOwn) {
  std::set<std::string> texts;
  for (const Point& point : all_points()) {
    EXPECT_TRUE(texts.insert(std::string(point.suite) + " " + text(point)).second) << text(point);
    EXPECT_NO_THROW(graph_of(point)) << text(point);
  }
}

TEST(BenchPoints, TheDenseGridIsWide) {
  const auto points = find_points("dense", {});
  EXPECT_GE(points.size(), 30u);
  std::set<std::string> epilogues;
  for (const Point& point : points) {
    epilogues.insert(point.epilogue);
    EXPECT_GE(point.m, 128);
    EXPECT_LE(point.m, 16384);
  }
  EXPECT_TRUE(epilogues.contains("identity"));
  EXPECT_TRUE(epilogues.contains("bias+gelu_tanh+residual+preact"));
}

TEST(BenchPoints, OnlyOperandsThatTheEpilogueNames) {
  EXPECT_EQ(graph_text("identity").find("b:"), std::string::npos);
  EXPECT_EQ(graph_text("scale+residual"),
            "graph bench(x: bf16[M, 4], w: bf16[8, 4], s: bf16[8], r: bf16[M, 8]) {\n"
            "  t2 = transpose w [1, 0]\n"
            "  t3 = matmul x, t2\n"
            "  t5 = mul t3, s\n"
            "  t7 = add t5, r\n"
            "  return t7 as y\n"
            "}\n");
}

TEST(BenchPoints, PreactIsWhatTheActivationIsAppliedTo) {
  EXPECT_EQ(graph_text("bias+silu+residual+preact"),
            "graph bench(x: bf16[M, 4], w: bf16[8, 4], b: bf16[8], r: bf16[M, 8]) {\n"
            "  t2 = transpose w [1, 0]\n"
            "  t3 = matmul x, t2\n"
            "  t5 = add t3, b\n"
            "  t6 = silu t5\n"
            "  t8 = add t6, r\n"
            "  return t8 as y, t5 as z\n"
            "}\n");
}

TEST(BenchPoints, NoPointIsAnError) {
  EXPECT_THROW(find_points("dense", {"no such workload"}), ArgumentError);
  EXPECT_THROW(find_points("dense", {"residual", "no such workload"}), ArgumentError);
  EXPECT_THROW(find_points("sparse", {}), ArgumentError);
}

TEST(BenchPoints, APointHasOneOfTheFilters) {
  const auto points = find_points("dense", {"128x4096x14336", "qwen2_7b_qkv", "128x4608x3584"});
  std::set<std::string> texts;
  for (const Point& point : points) texts.insert(text(point));
  EXPECT_EQ(texts, (std::set<std::string>{
                       "llama3_8b_down 128x4096x14336 residual", "qwen2_7b_qkv 128x4608x3584 bias",
                       "qwen2_7b_qkv 2048x4608x3584 bias", "qwen2_7b_qkv 8192x4608x3584 bias"}));
  EXPECT_EQ(points.size(), texts.size()) << "each once";
}

}  // namespace
}  // namespace epifuse::cli
