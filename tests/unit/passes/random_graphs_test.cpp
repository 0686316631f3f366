// Random graphs of all ops, rich in what the rewrites look for, mean the same after the exact
// passes.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "epifuse/error.h"
#include "evaluator.h"
#include "ir/text.h"
#include "passes/pipeline.h"

namespace epifuse {
namespace {

// What random graphs start from, and the shapes that their views take.
struct Start {
  const char* text;
  std::vector<ir::Shape> shapes;
};

const Start kFourRows{R"(graph g(x: f32[4, 6], z: f32[4, 6], b: f32[6], h: bf16[4, 6],
                                 k: f32[4, 1], w: f32[6, 6], v: f32[2, 2, 6], s: scalar) {
      m = matmul x, w
      return m
    })",
                      {{4, 6}, {2, 2, 6}, {24}, {1, 6}, {6}, {2, 4, 6}, {1, 4, 6}}};
// A product of one row is a vector, a row, a column and a batch, whatever reads it.
const Start kOneRow{
    R"(graph g(x: f32[1, 4], w: f32[4, 6], b: f32[6], c: f32[6, 1], k: f32[1, 1],
                               u: f32[4, 1], v: f32[1, 1, 6], q: bf16[1, 6], s: scalar) {
      m = matmul x, w
      n = reshape m [6]
      o = matmul x, u
      return m
    })",
    {{6}, {1, 6}, {6, 1}, {1, 1, 6}, {2, 3}, {1, 6, 1}, {1}, {}, {1, 1}, {3, 1, 2}}};

class GraphMaker {
 public:
  explicit GraphMaker(std::uint64_t seed, const Start& start = kFourRows)
      : start_(start), random_(seed) {}

  ir::Graph make() {
    graph_ = ir::parse(start_.text);
    while (graph_.nodes.size() < 40) try_add(pick_node());
    graph_.outputs = {{"first", pick_value()}};
    for (ir::ValueId id = last_value(); id > last_value() - 6; --id) {
      graph_.outputs.push_back({"out" + std::to_string(id), id});
    }
    return graph_;
  }

 private:
  std::size_t below(std::size_t bound) { return random_() % bound; }
  template <class T, std::size_t N>
  T one_of(const T (&choices)[N]) {
    return choices[below(N)];
  }
  ir::ValueId last_value() const { return static_cast<ir::ValueId>(graph_.nodes.size()) - 1; }

  // Late values more often, so that ops stack up.
  ir::ValueId pick_value() {
    const std::size_t size = graph_.nodes.size();
    const std::size_t span = below(2) == 0 ? std::min<std::size_t>(size, 6) : size;
    return static_cast<ir::ValueId>(size - 1 - below(span));
  }

  ir::Node pick_node() {
    switch (below(8)) {
      case 0: return pick_constant();
      case 1: return pick_view();
      case 2: return pick_cast();
      case 3: return pick_matmul_or_reduction();
      default: return pick_elementwise();
    }
  }

  ir::Node pick_constant() {
    return {.op = ir::Op::constant,
            .value = one_of({0.0, -0.0, 1.0, -1.0, 2.0, 0.5, 4.0, 6.0, 3.0, 0.7071, -3.0})};
  }

  ir::Node pick_cast() {
    ir::Node node{.op = ir::Op::cast, .args = {pick_value()}};
    node.type.dtype = one_of({DType::f32, DType::bf16, DType::f16, DType::f32});
    return node;
  }

  ir::Node pick_matmul_or_reduction() {
    ir::Node node{.op = one_of({ir::Op::matmul, ir::Op::row_sum, ir::Op::col_max})};
    node.args = {pick_value()};
    if (node.op != ir::Op::matmul) return node;
    node.args.push_back(pick_value());
    node.transpose_a = below(2) == 0;
    node.transpose_b = below(2) == 0;
    node.type.dtype = DType::f32;
    return node;
  }

  ir::Node pick_view() {
    const ir::ValueId operand = pick_value();
    const ir::Shape shape = graph_[operand].type.shape;
    ir::Node node{.op = one_of({ir::Op::transpose, ir::Op::reshape, ir::Op::slice,
                                ir::Op::broadcast, ir::Op::reshape}),
                  .args = {operand}};
    if (node.op == ir::Op::reshape || node.op == ir::Op::broadcast) {
      node.type.shape = start_.shapes[below(start_.shapes.size())];
    }
    for (std::size_t d = 0; d < shape.size(); ++d) {
      if (node.op == ir::Op::transpose) node.permutation.push_back(static_cast<int>(d));
      if (node.op != ir::Op::slice) continue;
      const std::int64_t size = shape[d].constant().value();
      const auto start = static_cast<std::int64_t>(below(2) * below(2));
      node.ranges.push_back({start, size, 1 + static_cast<std::int64_t>(below(2))});
    }
    std::shuffle(node.permutation.begin(), node.permutation.end(), random_);
    return node;
  }

  ir::Node pick_elementwise() {
    using ir::Op;
    ir::Node node{.op = one_of({Op::add,  Op::sub,   Op::mul,    Op::div, Op::min,  Op::max,
                                Op::pow,  Op::neg,   Op::neg,    Op::abs, Op::relu, Op::square,
                                Op::lt,   Op::ge,    Op::select, Op::mul, Op::min,  Op::max,
                                Op::sqrt, Op::clamp, Op::tanh,   Op::add, Op::exp,  Op::sub})};
    for (int i = 0; i < ir::info(node.op).arity; ++i) node.args.push_back(pick_value());
    return node;
  }

  // What breaks a typing rule is not added.
  void try_add(ir::Node node) {
    try {
      ir::append(graph_, std::move(node));
    } catch (const GraphError&) {
    }
  }

  const Start& start_;
  std::mt19937_64 random_;
  ir::Graph graph_;
};

// min and max may return either of two zeros, and 1 / 0 and pow(0, -1) tell them apart.
bool tells_zeros_apart(const ir::Graph& graph) {
  bool makes = false, tells = false;
  for (const ir::Node& node : graph.nodes) {
    makes = makes || node.op == ir::Op::min || node.op == ir::Op::max;
    tells = tells || node.op == ir::Op::div || node.op == ir::Op::pow;
  }
  return makes && tells;
}

bool same(double a, double b) { return a == b || (std::isnan(a) && std::isnan(b)); }

void expect_same_outputs(const ir::Graph& before, const ir::Graph& after,
                         const testing::Tensors& inputs) {
  const auto all = testing::Rounding::every_value;
  const testing::Tensors results = testing::evaluate(after, {}, inputs, all);
  for (const auto& [name, tensor] : testing::evaluate(before, {}, inputs, all)) {
    const testing::Tensor& other = results.at(name);
    ASSERT_EQ(tensor.shape, other.shape) << name;
    for (std::size_t i = 0; i < tensor.data.size(); ++i) {
      ASSERT_TRUE(same(tensor.data[i], other.data[i]))
          << name << "[" << i << "]: " << tensor.data[i] << " before, " << other.data[i]
          << " after\n"
          << ir::print(before) << ir::print(after);
    }
  }
}

TEST(RandomGraphs, ExactPassesKeepTheValues) {
  int num_compared = 0;
  for (std::uint64_t seed = 0; seed < 400; ++seed) {
    const ir::Graph graph = GraphMaker(seed).make();
    const ir::Graph after = passes::run_all(graph, Numerics::exact);
    std::mt19937_64 random(seed);
    if (tells_zeros_apart(graph) && seed % 2 == 1) continue;
    const bool special = !tells_zeros_apart(graph);
    expect_same_outputs(graph, after, testing::random_inputs(graph, {}, special, random));
    if (HasFatalFailure()) return;
    ++num_compared;
  }
  EXPECT_GT(num_compared, 150);
}

// In front of each pass alone, not only of those before which canonicalise has tidied up.
TEST(RandomGraphs, EachPassAloneKeepsTheValues) {
  int num_compared = 0;
  for (const Start* start : {&kFourRows, &kOneRow}) {
    for (std::uint64_t seed = 0; seed < 400; ++seed) {
      const ir::Graph graph = GraphMaker(seed, *start).make();
      std::mt19937_64 random(seed);
      const bool special = !tells_zeros_apart(graph);
      const testing::Tensors inputs = testing::random_inputs(graph, {}, special, random);
      for (const passes::Pass& pass : passes::all()) {
        ir::Graph after;
        ASSERT_NO_THROW(after = pass.run(graph)) << pass.name << " of\n" << ir::print(graph);
        ir::verify(after);
        if (pass.skips_roundings || (tells_zeros_apart(graph) && seed % 2 == 1)) continue;
        expect_same_outputs(graph, after, inputs);
        if (HasFatalFailure()) return;
        ++num_compared;
      }
    }
  }
  EXPECT_GT(num_compared, 3000);
}

TEST(RandomGraphs, EachPassRunTwiceChangesNothingMore) {
  for (std::uint64_t seed = 0; seed < 400; ++seed) {
    const ir::Graph graph = GraphMaker(seed).make();
    for (const passes::Pass& pass : passes::all()) {
      const ir::Graph once = pass.run(graph);
      ir::verify(once);
      ASSERT_EQ(ir::print(pass.run(once)), ir::print(once)) << pass.name << " of\n"
                                                            << ir::print(graph);
    }
  }
}

}  // namespace
}  // namespace epifuse
