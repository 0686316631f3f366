// The pipeline: what runs at which numerics, what is logged, and that it is fast on large graphs.
#include "passes/pipeline.h"

#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <string>
#include <vector>

#include "epifuse/error.h"
#include "ir/text.h"

namespace epifuse::passes {
namespace {

ir::Graph silu_graph() {
  return ir::parse(R"(graph g(x: bf16[M, 6]) {
    n = neg x
    e = exp n
    s = add 1, e
    y = div x, s
    return y
  })");
}

std::vector<std::string> names_logged(const ir::Graph& graph, Numerics numerics) {
  std::vector<std::string> names;
  run_all(graph, numerics,
          [&](const Pass& pass, const ir::Graph&) { names.emplace_back(pass.name); });
  return names;
}

TEST(Pipeline, LogsOnlyPassesThatChangeTheGraph) {
  EXPECT_EQ(names_logged(silu_graph(), Numerics::fast),
            (std::vector<std::string>{"canonicalise", "fold_activations", "dead_code"}));
  const ir::Graph plain = ir::parse("graph g(x: f32[6]) {\n  y = exp x\n  return y\n}");
  EXPECT_EQ(names_logged(plain, Numerics::fast), std::vector<std::string>{});
}

TEST(Pipeline, LogsTheGraphAfterThePass) {
  ir::Graph last;
  const ir::Graph result = run_all(silu_graph(), Numerics::fast,
                                   [&](const Pass&, const ir::Graph& graph) { last = graph; });
  EXPECT_EQ(last, result);
}

TEST(Pipeline, ExactKeepsRoundingsThatFastAndApproxSkip) {
  const auto has_silu = [](Numerics numerics) {
    return ir::print(run_all(silu_graph(), numerics)).find("silu x") != std::string::npos;
  };
  EXPECT_TRUE(has_silu(Numerics::fast));
  EXPECT_TRUE(has_silu(Numerics::approx));
  EXPECT_FALSE(has_silu(Numerics::exact));
}

TEST(Pipeline, RefusesABrokenGraph) {
  ir::Graph graph = silu_graph();
  graph.nodes.back().args[0] = static_cast<ir::ValueId>(graph.nodes.size()) - 1;
  EXPECT_THROW(run_all(graph, Numerics::fast), InternalError);
}

TEST(Pipeline, EveryPassHasAName) {
  for (const Pass& pass : all()) {
    EXPECT_TRUE(ir::is_identifier(pass.name));
    EXPECT_EQ(pass.summary.back(), '.') << pass.name;
  }
}

// A graph of `num_nodes` nodes: an input, then what `next` gives for the value before.
ir::Graph chain(int num_nodes, const std::function<ir::Node(ir::ValueId)>& next) {
  ir::Graph graph{"g", {}, {}};
  ir::Node input{.op = ir::Op::input, .name = "x"};
  input.type = {DType::f32, {Dim("M"), Dim(8)}, {}};
  graph.nodes.push_back(input);
  while (static_cast<int>(graph.nodes.size()) < num_nodes) {
    const auto id = static_cast<ir::ValueId>(graph.nodes.size());
    ir::Node node = next(id - 1);
    node.name = "t" + std::to_string(id);
    node.type = ir::infer_type(graph, node);
    graph.nodes.push_back(std::move(node));
  }
  graph.outputs.push_back({"y", static_cast<ir::ValueId>(graph.nodes.size()) - 1});
  return graph;
}

ir::Node unary(ir::Op op, ir::ValueId arg) { return {.op = op, .args = {arg}}; }

ir::Node reshape_to(ir::ValueId arg, const ir::Shape& shape) {
  ir::Node node = unary(ir::Op::reshape, arg);
  node.type.shape = shape;
  return node;
}

constexpr int kNumNodes = 10'000;

// A generous bound for a debug build with sanitizers on a busy machine: quadratic work takes
// minutes.
void expect_fast(const ir::Graph& graph) {
  const auto start = std::chrono::steady_clock::now();
  for (const Numerics numerics : {Numerics::fast, Numerics::exact}) run_all(graph, numerics);
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
  EXPECT_LT(seconds.count(), 20) << graph.nodes[1].name;
}

TEST(PipelineSpeed, DeepChainOfActivations) {
  expect_fast(chain(kNumNodes, [](ir::ValueId id) -> ir::Node {
    // neg, exp, mul, sigmoid of the value before, over and over.
    constexpr ir::Op kOps[] = {ir::Op::neg, ir::Op::exp, ir::Op::sigmoid};
    if (id % 4 == 3) return {.op = ir::Op::mul, .args = {id, id - 1}};
    return unary(kOps[id % 4], id);
  }));
}

TEST(PipelineSpeed, DeepProducts) {
  // mul(x, x) on end: the root of most patterns, and every operand order matches.
  expect_fast(chain(kNumNodes, [](ir::ValueId id) -> ir::Node {
    return {.op = ir::Op::mul, .args = {id, id > 0 ? id - 1 : 0}};
  }));
}

TEST(PipelineSpeed, ChainOfViews) {
  expect_fast(chain(kNumNodes, [](ir::ValueId id) -> ir::Node {
    if (id % 2 == 0) return reshape_to(id, {Dim(8), Dim("M")});
    ir::Node node = unary(ir::Op::transpose, id);
    node.permutation = {1, 0};
    return node;
  }));
}

TEST(PipelineSpeed, ManyReshapedResults) {
  ir::Graph graph = ir::parse(R"(graph g(x: f32[6*M, 5], w: f32[5, 8]) {
    h = matmul x, w
    y = exp h
    return y
  })");
  ir::ValueId last = graph.outputs[0].value;
  while (graph.nodes.size() < kNumNodes) {
    const bool is_flat = graph[last].type.shape.size() == 2;
    ir::Node view = reshape_to(
        last, is_flat ? ir::Shape{Dim("M"), Dim(6), Dim(8)} : ir::Shape{Dim("M") * Dim(6), Dim(8)});
    for (ir::Node node : {view, unary(ir::Op::tanh, 0)}) {
      const auto id = static_cast<ir::ValueId>(graph.nodes.size());
      if (node.op == ir::Op::tanh) node.args = {id - 1};
      node.name = "t" + std::to_string(id);
      node.type = ir::infer_type(graph, node);
      graph.nodes.push_back(std::move(node));
    }
    last = static_cast<ir::ValueId>(graph.nodes.size()) - 1;
  }
  graph.outputs[0].value = last;
  expect_fast(graph);
}

TEST(PipelineSpeed, ManySlicesOfOneInput) {
  ir::Graph graph = chain(1, {});
  for (int i = 0; i < kNumNodes; ++i) {
    ir::Node node = unary(ir::Op::slice, 0);
    node.ranges = {{Dim{}, Dim("M"), 1}, {Dim(i % 8), Dim(8), 1}};
    node.name = "t" + std::to_string(i + 1);
    node.type = ir::infer_type(graph, node);
    graph.nodes.push_back(std::move(node));
  }
  expect_fast(graph);
  EXPECT_EQ(common_subexpressions(graph).nodes.size(), 9U);  // x, and a slice from each start
}

}  // namespace
}  // namespace epifuse::passes
