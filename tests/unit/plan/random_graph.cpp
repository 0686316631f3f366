// Random graphs of every kind of op, from a fixed seed.
#include "random_graph.h"

#include <fmt/core.h>

#include <algorithm>
#include <numeric>
#include <random>

#include "epifuse/error.h"

namespace epifuse::test {
namespace {

using ir::Graph;
using ir::Node;
using ir::Op;
using ir::Shape;
using ir::ValueId;

const Dim kM("M"), kN("N"), kK("K"), kB("B");

const std::vector<Shape>& input_shapes() {
  static const std::vector<Shape> shapes = {
      {kM, kK},      {kK, kN},      {kN, kK},     {kN, kN},     {kM, kN},     {kM, kN},
      {kN},          {kM},          {kM, 1},      {1, kN},      {kB, kM, kK}, {kB, kK, kN},
      {kB, kM, kN},  {kB, 1, kN},   {kB, kM, 1},  {kB, 1, 1},   {},           {1},
      {kB * kM, kN}, {kB * kM, kK}, {kK, kN * 2}, {kN * 2, kK}, {kM, kN * 2}, {kN * 2}};
  return shapes;
}

class Generator {
 public:
  explicit Generator(const RandomGraphOptions& options)
      : random_(options.seed), narrow_(options.narrow), num_ops_(options.num_ops) {}
  Graph make();

 private:
  std::size_t below(std::size_t limit) { return random_() % limit; }
  bool chance(std::size_t percent) { return below(100) < percent; }
  ValueId pick();
  DType pick_dtype();
  void add_inputs();
  bool try_append(Node node);
  void add_op();
  void add_elementwise();
  void add_matmul();
  void add_cast();
  void add_reduction();
  void add_view();
  void add_halves();
  ValueId wide_product();
  void add_join();
  void add_outputs();

  std::mt19937 random_;
  bool narrow_;
  int num_ops_;
  Graph graph_{"random", {}, {}};
};

Graph Generator::make() {
  add_inputs();
  for (int i = 0; i < num_ops_; ++i) add_op();
  add_outputs();
  return std::move(graph_);
}

// Late values more often, so that chains get long. Without narrow values nothing reads one but the
// cast back to f32.
ValueId Generator::pick() {
  for (;;) {
    const std::size_t size = graph_.nodes.size();
    const std::size_t from = chance(60) ? size - std::min<std::size_t>(size, 6) : 0;
    const auto id = static_cast<ValueId>(from + below(size - from));
    const DType dtype = graph_[id].type.dtype;
    if (narrow_ || dtype == DType::f32 || dtype == DType::boolean) return id;
  }
}

DType Generator::pick_dtype() {
  if (!narrow_) return DType::f32;
  constexpr DType kDTypes[] = {DType::bf16, DType::bf16, DType::bf16, DType::f32, DType::f16};
  return kDTypes[below(5)];
}

void Generator::add_inputs() {
  const DType dtype = narrow_ ? DType::bf16 : DType::f32;
  for (const Shape& shape : input_shapes()) {
    Node node;
    node.name = fmt::format("x{}", graph_.nodes.size());
    node.type = {chance(85) ? dtype : pick_dtype(), shape, {}};
    ir::append(graph_, node);
  }
  Node mask;
  mask.name = "mask";
  mask.type = {DType::boolean, {kM, kN}, {}};
  ir::append(graph_, mask);
  Node scalar;
  scalar.op = Op::scalar;
  scalar.name = "alpha";
  ir::append(graph_, scalar);
  Node constant;
  constant.op = Op::constant;
  constant.value = 0.75;
  ir::append(graph_, constant);
}

// Whether the op is one for these operands.
bool Generator::try_append(Node node) {
  try {
    ir::append(graph_, std::move(node));
    return true;
  } catch (const GraphError&) {
    return false;
  }
}

void Generator::add_op() {
  const std::size_t kind = below(100);
  if (kind < 15) return add_matmul();
  if (kind < 68) return add_elementwise();
  if (kind < 76) return add_cast();
  if (kind < 82) return add_reduction();
  if (kind < 89) return add_halves();
  if (kind < 91) return add_join();
  add_view();
}

void Generator::add_matmul() {
  for (int i = 0; i < 200; ++i) {
    Node node;
    node.op = Op::matmul;
    node.args = {pick(), pick()};
    node.transpose_a = chance(20);
    node.transpose_b = chance(50);
    node.type.dtype = chance(70) ? graph_[node.args[0]].type.dtype : DType::f32;
    if (try_append(std::move(node))) return;
  }
}

void Generator::add_elementwise() {
  constexpr Op kOps[] = {Op::add, Op::add,  Op::mul,  Op::mul,   Op::sub, Op::max,
                         Op::min, Op::silu, Op::relu, Op::exp,   Op::neg, Op::tanh,
                         Op::abs, Op::lt,   Op::ge,   Op::select};
  for (int i = 0; i < 50; ++i) {
    Node node;
    node.op = kOps[below(std::size(kOps))];
    for (int a = 0; a < ir::info(node.op).arity; ++a) node.args.push_back(pick());
    if (try_append(std::move(node))) return;
  }
}

void Generator::add_cast() {
  Node node;
  node.op = Op::cast;
  node.args = {pick()};
  node.type.dtype = chance(30) ? DType::e4m3 : narrow_ ? pick_dtype() : DType::bf16;
  if (!try_append(std::move(node)) || narrow_) return;
  // Back to f32 at once, so that nothing is computed in a narrow dtype.
  Node back;
  back.op = Op::cast;
  back.args = {static_cast<ValueId>(graph_.nodes.size()) - 1};
  back.type.dtype = DType::f32;
  ir::append(graph_, std::move(back));
}

void Generator::add_reduction() {
  constexpr Op kOps[] = {Op::row_sum, Op::row_max, Op::col_sum, Op::col_max};
  for (int i = 0; i < 20; ++i) {
    Node node;
    node.op = kOps[below(4)];
    node.args = {pick()};
    if (try_append(std::move(node))) return;
  }
}

void Generator::add_view() {
  constexpr Op kOps[] = {Op::transpose, Op::transpose, Op::reshape,
                         Op::reshape,   Op::slice,     Op::broadcast};
  for (int i = 0; i < 50; ++i) {
    Node node;
    node.op = kOps[below(std::size(kOps))];
    node.args = {pick()};
    const Shape& shape = graph_[node.args[0]].type.shape;
    if (node.op == Op::transpose) {
      node.permutation.resize(shape.size());
      std::iota(node.permutation.begin(), node.permutation.end(), 0);
      std::shuffle(node.permutation.begin(), node.permutation.end(), random_);
    } else if (node.op == Op::slice) {
      for (const Dim& dim : shape) {
        const bool cut = !dim.is(1) && chance(40);
        node.ranges.push_back({cut ? 1 : 0, dim, 1});
      }
    } else {
      static const std::vector<Shape> more = {{kB, kM, kN}, {kB * kM, kN}, {kN, kM}, {kM * kN}};
      const std::vector<Shape>& shapes = chance(50) ? more : input_shapes();
      node.type.shape = shapes[below(shapes.size())];
    }
    if (try_append(std::move(node))) return;
  }
}

// A new product of twice N columns.
ValueId Generator::wide_product() {
  const auto find = [&](const Shape& shape) {
    const auto& nodes = graph_.nodes;
    const auto found = std::find_if(nodes.begin(), nodes.end(), [&](const Node& node) {
      return node.type.shape == shape && node.op == Op::input;
    });
    return static_cast<ValueId>(found - nodes.begin());
  };
  Node node;
  node.op = Op::matmul;
  node.args = {find({kM, kK}), find({kK, kN * 2})};
  node.type.dtype = graph_[node.args[0]].type.dtype;
  return try_append(std::move(node)) ? static_cast<ValueId>(graph_.nodes.size()) - 1 : pick();
}

// Both halves of a value's columns, or every other one, and mostly an op that takes both.
void Generator::add_halves() {
  for (int i = 0; i < 20; ++i) {
    const ValueId whole = chance(50) ? wide_product() : pick();
    const Shape shape = graph_[whole].type.shape;
    if (shape.empty() || !shape.back().divide(2) || shape.back().constant()) continue;
    const bool by_turns = chance(50);
    const Dim middle = *shape.back().divide(2);
    ValueId halves[2];
    for (int half = 0; half < 2; ++half) {
      Node node;
      node.op = Op::slice;
      node.args = {whole};
      for (const Dim& dim : shape) node.ranges.push_back({0, dim, 1});
      if (by_turns) node.ranges.back() = {half, shape.back(), 2};
      if (!by_turns)
        node.ranges.back() = {half == 0 ? Dim(0) : middle, half == 0 ? middle : shape.back(), 1};
      halves[half] = ir::append(graph_, std::move(node));
    }
    if (chance(20)) return;
    Node both;
    both.op = chance(50) ? Op::mul : Op::add;
    both.args = {halves[0], halves[1]};
    try_append(std::move(both));
    return;
  }
}

void Generator::add_join() {
  for (int i = 0; i < 50; ++i) {
    Node node;
    node.op = chance(50) ? Op::concat : Op::interleave;
    node.args = {pick(), pick()};
    if (try_append(std::move(node))) return;
  }
}

void Generator::add_outputs() {
  const std::size_t count = 1 + below(5);
  for (std::size_t i = 0; i < count; ++i) {
    graph_.outputs.push_back({fmt::format("out{}", i), pick()});
  }
}

}  // namespace

ir::Graph random_graph(const RandomGraphOptions& options) { return Generator(options).make(); }

Sizes random_graph_sizes() { return {{"M", 3}, {"N", 4}, {"K", 5}, {"B", 2}}; }

}  // namespace epifuse::test
