// Sizes that the command line leaves out.
#include <gtest/gtest.h>

#include "cli/options.h"

namespace epifuse::cli {
namespace {

TEST(CompleteSizes, TakeSymbolsOfStridesAlone) {
  const Graph graph = Graph::parse(
      "graph g(x: f32[M, 64] strides [1, S], y: f32[M, 64] strides [0, 1]) {\n  t = add x, y\n"
      "  return t\n}");
  EXPECT_EQ(complete_sizes(graph, {{"S", 100}}), (Sizes{{"M", 512}, {"S", 100}}));
  EXPECT_EQ(complete_sizes(graph, {{"M", 7}}), (Sizes{{"M", 7}, {"S", 512}}));
}

}  // namespace
}  // namespace epifuse::cli
