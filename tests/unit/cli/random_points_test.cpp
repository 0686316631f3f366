#include "cli/random_points.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "cli/split_run.h"
#include "ir/graph.h"

namespace epifuse::cli {
namespace {

TEST(RandomPoints, ASeedGivesTheSamePointsEverywhere) {
  const std::vector<Point> points = random_points(1, 3);
  std::vector<std::string> texts;
  for (const Point& point : points) texts.push_back(text(point));
  EXPECT_EQ(texts, (std::vector<std::string>{"1.0 nn 3x768x384 bias+gelu_tanh+preact",
                                             "1.1 2x5096x640 bias+silu",
                                             "1.2 xm nn 16x808x320 bias+gelu_erf"}));
  EXPECT_EQ(text(random_points(1, 50)[2]), texts[2]);
  EXPECT_NE(text(random_points(2, 1)[0]), texts[0]);
}

TEST(RandomPoints, TheyVaryInAllThatMatters) {
  const std::vector<Point> points = random_points(7, 400);
  const auto share = [&](auto&& has) {
    return static_cast<double>(std::count_if(points.begin(), points.end(), has)) / 400;
  };
  EXPECT_NEAR(share([](const Point& p) { return has_layout(p, "xm"); }), 0.15, 0.06);
  EXPECT_NEAR(share([](const Point& p) { return has_layout(p, "nn"); }), 0.30, 0.08);
  EXPECT_NEAR(share([](const Point& p) { return p.dtype == DType::f16; }), 0.20, 0.07);
  EXPECT_NEAR(share([](const Point& p) { return p.batch > 1; }), 0.15, 0.08);
  EXPECT_NEAR(share([](const Point& p) { return p.k % 8 != 0; }), 0.17, 0.06);
  EXPECT_NEAR(share([](const Point& p) { return p.m < 128; }), 0.5, 0.1);
  std::set<std::string> epilogues;
  for (const Point& p : points) epilogues.insert(p.epilogue);
  EXPECT_EQ(epilogues.size(), 14U);
}

TEST(RandomPoints, EachIsOneFusedProductOfThoseSizes) {
  for (const Point& point : random_points(3, 60)) {
    const Graph graph = graph_of(point);
    EXPECT_TRUE(plan_of_product(graph)) << text(point);
    EXPECT_EQ(graph.ir().nodes[0].type.shape.size(), point.batch > 1 ? 3U : 2U) << text(point);
  }
}

TEST(RandomPoints, ThoseOf8BitsAreScaledProductsOnBoundaries) {
  for (const Point& point : random_fp8_points(5, 60)) {
    EXPECT_TRUE(plan_of_product(graph_of(point))) << text(point);
    EXPECT_EQ(point.k % 16, 0) << text(point);
    EXPECT_EQ(point.n % 16, 0) << text(point);
  }
  EXPECT_EQ(text(random_fp8_points(5, 9)[3]), text(random_fp8_points(5, 4)[3]));
}

TEST(RandomPoints, LayoutsAreThoseOfTheirWords) {
  const Point point{"random", "1.0 xm nn", 8, 16, 32, "bias", "xm nn", DType::f16, 2};
  EXPECT_EQ(graph_of(point).str(),
            "graph bench(x: f16[2, 32, M], w: f16[2, 32, 16], b: f16[16]) {\n"
            "  t1 = transpose x [0, 2, 1]\n"
            "  t3 = matmul t1, w\n"
            "  t5 = add t3, b\n"
            "  return t5 as y\n"
            "}\n");
}

}  // namespace
}  // namespace epifuse::cli
