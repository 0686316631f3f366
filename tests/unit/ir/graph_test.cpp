// Names, users, and what verify refuses.
#include "ir/graph.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string_view>
#include <vector>

#include "epifuse/error.h"
#include "ir/words.h"
#include "small_graph.h"

namespace epifuse::ir {
namespace {

TEST(Names, Identifiers) {
  for (const char* good : {"x", "_", "x1", "Bias_2", "graph"}) EXPECT_TRUE(is_identifier(good));
  for (const char* bad : {"", "1x", "a b", "a-b", "ü", "a."}) EXPECT_FALSE(is_identifier(bad));
}

TEST(Names, ReservedWords) {
  for (const char* word : {"graph", "return", "strides", "scalar", "bf16", "bool", "add", "matmul",
                           "transpose", "constant", "inf"}) {
    EXPECT_TRUE(is_reserved_word(word)) << word;
  }
  for (const char* word : {"x", "input", "Graph", "gelu", ""}) {
    EXPECT_FALSE(is_reserved_word(word)) << word;
  }
}

TEST(Names, EveryDtypeAndOpOfTheTextIsReserved) {
  const std::vector<std::string_view> words = reserved_words();
  EXPECT_EQ(std::set(words.begin(), words.end()).size(), words.size());
  for (const std::string_view word : words) {
    EXPECT_TRUE(is_reserved_word(word)) << word;
    EXPECT_FALSE(is_reserved_word(sanitize(word))) << word;
  }
  for (const std::string_view word : {"i32", "i64", "take_rows", "grouped_matmul"}) {
    EXPECT_NE(std::find(words.begin(), words.end(), word), words.end()) << word;
  }
}

TEST(Names, SanitizeGivesFreeIdentifiers) {
  EXPECT_EQ(sanitize("x"), "x");
  EXPECT_EQ(sanitize("layer.0/weight"), "layer_0_weight");
  EXPECT_EQ(sanitize("0"), "_0");
  EXPECT_EQ(sanitize(""), "_");
  EXPECT_EQ(sanitize("add"), "add_");
  EXPECT_EQ(sanitize("a\n\"; }"), "a_____");
  EXPECT_EQ(sanitize("é"), "__");
  EXPECT_EQ(sanitize(std::string(1000, 'a')).size(), 100u);
}

TEST(Names, AppendMakesThemUnique) {
  SmallGraph g;
  const ValueId x = g.input("x", DType::f32, {4});
  const ValueId again = g.input("x", DType::f32, {4});
  const ValueId third = g.input("x", DType::f32, {4});
  const ValueId sum = g.apply(Op::add, {x, again});
  EXPECT_EQ(g.graph[again].name, "x_2");
  EXPECT_EQ(g.graph[third].name, "x_3");
  EXPECT_EQ(g.graph[sum].name, "t3");
  const ValueId odd = g.input("a b", DType::f32, {4});
  EXPECT_EQ(g.graph[odd].name, "a_b");
}

TEST(Graph, Users) {
  SmallGraph g;
  const ValueId x = g.input("x", DType::f32, {4});
  const ValueId y = g.apply(Op::mul, {x, x});
  const ValueId z = g.apply(Op::add, {y, x});
  EXPECT_EQ(users(g.graph), (std::vector<std::vector<ValueId>>{{y, z}, {z}, {}}));
}

Graph good_graph() {
  SmallGraph g;
  const ValueId x = g.input("x", DType::bf16, {Dim("M"), 8});
  const ValueId w = g.input("w", DType::bf16, {16, 8});
  const ValueId h = g.matmul(x, w, DType::bf16, false, true);
  const ValueId y = g.apply(Op::relu, {h});
  g.graph.outputs = {{"h", h}, {"y", y}};
  return g.graph;
}

void expect_refused(const Graph& graph, const std::string& part) {
  try {
    verify(graph);
    ADD_FAILURE() << "taken; expected a refusal with: " << part;
  } catch (const InternalError& error) {
    EXPECT_NE(std::string(error.what()).find(part), std::string::npos) << error.what();
  }
}

TEST(Verify, TakesGoodGraphs) {
  EXPECT_NO_THROW(verify(good_graph()));
  EXPECT_NO_THROW(verify({"empty", {}, {}}));
}

TEST(Verify, RefusesBrokenNames) {
  Graph graph = good_graph();
  graph.name = "a b";
  expect_refused(graph, "graph name 'a b'");
  graph = good_graph();
  graph.nodes[0].name = "w";
  expect_refused(graph, "value 'w' (input): its name is used twice");
  graph.nodes[0].name = "add";
  expect_refused(graph, "its name is no free identifier");
  graph = good_graph();
  graph.outputs[1].name = "h";
  expect_refused(graph, "two outputs called 'h'");
  graph.outputs[1].name = "1";
  expect_refused(graph, "output name '1'");
}

TEST(Verify, RefusesBrokenEdges) {
  Graph graph = good_graph();
  graph.outputs[0].value = 4;
  expect_refused(graph, "output 'h' is no value of the graph");
  graph = good_graph();
  graph.nodes[3].args = {3};
  expect_refused(graph, "value 't3' (relu): an operand does not come before it");
  graph.nodes[3].args = {-1};
  expect_refused(graph, "an operand does not come before it");
  graph.nodes[3].args = {};
  expect_refused(graph, "relu expects 1 operand, got 0");
}

TEST(Verify, RefusesBrokenTypes) {
  Graph graph = good_graph();
  graph.nodes[3].type.dtype = DType::f16;
  expect_refused(graph, "its type is not what its operands give");
  graph = good_graph();
  graph.nodes[1].type.shape = {16, 9};
  expect_refused(graph, "K is 8 and 9");
  graph = good_graph();
  graph.nodes[3].value = 1;
  expect_refused(graph, "only constants have a value");
  graph = good_graph();
  graph.nodes[3].transpose_b = true;
  expect_refused(graph, "only matmul transposes its operands");
}

}  // namespace
}  // namespace epifuse::ir
