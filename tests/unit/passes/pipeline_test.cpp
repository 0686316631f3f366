// The pipeline: what runs at which numerics, what is logged, and that it is fast on large graphs.
#include "passes/pipeline.h"

#include <gtest/gtest.h>

#include <ctime>
#include <functional>
#include <string>
#include <utility>
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

// Like ir::append, without its search for a free name.
ir::ValueId add_node(ir::Graph& graph, ir::Node node) {
  const auto id = static_cast<ir::ValueId>(graph.nodes.size());
  node.name = "t" + std::to_string(id);
  node.type = ir::infer_type(graph, node);
  graph.nodes.push_back(std::move(node));
  return id;
}

// A graph of `num_nodes` nodes: an input, then what `next` gives for the value before.
ir::Graph chain(int num_nodes, const std::function<ir::Node(ir::ValueId)>& next) {
  ir::Graph graph{"g", {}, {}};
  ir::Node input{.op = ir::Op::input, .name = "x"};
  input.type = {DType::f32, {Dim("M"), Dim(8)}, {}};
  graph.nodes.push_back(input);
  while (static_cast<int>(graph.nodes.size()) < num_nodes) {
    add_node(graph, next(static_cast<ir::ValueId>(graph.nodes.size()) - 1));
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

double cpu_seconds(const ir::Graph& graph) {
  const std::clock_t start = std::clock();
  run_all(graph, Numerics::fast);
  return static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;
}

// Eight times the nodes take about eight times as long; quadratic work would take 64 times.
void expect_linear(const std::function<ir::Graph(int)>& make) {
  constexpr int kNumNodes = 1000;
  const ir::Graph small = make(kNumNodes), large = make(8 * kNumNodes);
  cpu_seconds(small);  // tables are built once
  EXPECT_LT(cpu_seconds(large), 24 * cpu_seconds(small) + 0.01);
}

TEST(PipelineSpeed, DeepChainOfActivations) {
  expect_linear([](int num_nodes) {
    return chain(num_nodes, [](ir::ValueId id) -> ir::Node {
      constexpr ir::Op kOps[] = {ir::Op::neg, ir::Op::exp, ir::Op::sigmoid};
      if (id % 4 == 3) return {.op = ir::Op::mul, .args = {id, id - 1}};
      return unary(kOps[id % 4], id);
    });
  });
}

// mul is the root of most patterns, and here both orders of its operands are tried all the way.
TEST(PipelineSpeed, DeepProducts) {
  expect_linear([](int num_nodes) {
    return chain(num_nodes, [](ir::ValueId id) -> ir::Node {
      return {.op = ir::Op::mul, .args = {id, id > 0 ? id - 1 : 0}};
    });
  });
}

TEST(PipelineSpeed, ChainOfViews) {
  expect_linear([](int num_nodes) {
    return chain(num_nodes, [](ir::ValueId id) -> ir::Node {
      if (id % 2 == 0) return reshape_to(id, {Dim(8), Dim("M")});
      ir::Node node = unary(ir::Op::transpose, id);
      node.permutation = {1, 0};
      return node;
    });
  });
}

// A matmul, then exp of a reshape of it, over and over: every reshape sinks to the end.
ir::Graph reshaped_results(int num_nodes) {
  ir::Graph graph = ir::parse(R"(graph g(x: f32[6*M, 5], w: f32[5, 8]) {
    h = matmul x, w
    return h
  })");
  const ir::Shape flat = {Dim("M") * Dim(6), Dim(8)}, split = {Dim("M"), Dim(6), Dim(8)};
  ir::ValueId last = graph.outputs[0].value;
  while (static_cast<int>(graph.nodes.size()) < num_nodes) {
    const ir::Node view = reshape_to(last, graph[last].type.shape == flat ? split : flat);
    last = add_node(graph, unary(ir::Op::tanh, add_node(graph, view)));
  }
  graph.outputs[0].value = last;
  return graph;
}

TEST(PipelineSpeed, ManyReshapedResults) { expect_linear(reshaped_results); }

TEST(PipelineSpeed, ManySlicesOfOneInput) {
  const auto make = [](int num_nodes) {
    return chain(num_nodes, [](ir::ValueId id) -> ir::Node {
      ir::Node node = unary(ir::Op::slice, 0);
      node.ranges = {{Dim{}, Dim("M"), 1}, {Dim(id % 8), Dim(8), 1}};
      return node;
    });
  };
  expect_linear(make);
  EXPECT_EQ(common_subexpressions(make(100)).nodes.size(), 9U);  // x, a slice from each start
}

}  // namespace
}  // namespace epifuse::passes
