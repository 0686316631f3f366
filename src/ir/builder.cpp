// Builds graphs from C++: the public Graph and Value.
#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/did_you_mean.h"
#include "base/float_types.h"
#include "epifuse/error.h"
#include "epifuse/graph.h"
#include "ir/graph.h"
#include "ir/source_error.h"
#include "ir/text.h"

namespace epifuse {

using ir::Node;
using ir::Op;
using ir::ValueId;

struct GraphState {
  ir::Graph graph;
  std::vector<ValueId> nodes;  // of each Value; they move when an input is put before the ops
  int num_constants = 0;
};

struct ValueAccess {
  static GraphState& state(const Value& value) { return *value.state_; }
  static const Node& node(const Value& value) { return state(value).graph[id(value)]; }
  static ValueId id(const Value& value) { return state(value).nodes[value.id_]; }

  // The value of a new node on `operands`, of which there is at least one.
  static Value make(Node node, const std::vector<Value>& operands) {
    for (const Value& operand : operands) {
      if (operand.state_ != operands[0].state_) {
        throw ArgumentError(fmt::format(
            "{} expects operands of one graph, got '{}' of graph '{}' and '{}' of graph '{}'",
            ir::name(node.op), ValueAccess::node(operands[0]).name, state(operands[0]).graph.name,
            ValueAccess::node(operand).name, state(operand).graph.name));
      }
      node.args.push_back(id(operand));
    }
    GraphState& target = state(operands[0]);
    target.nodes.push_back(ir::append(target.graph, std::move(node)));
    return {operands[0].state_, target.nodes.size() - 1};
  }

  static Value constant(const Value& neighbour, double value) {
    return Graph(neighbour.state_).constant(value);
  }
};

namespace {

using Access = ValueAccess;

bool is_bound(const Node& node) { return node.op == Op::input || node.op == Op::scalar; }

// Moves the last node to `place`, and all that refers to it and to the nodes it jumps over.
void move_last_node(GraphState& state, ValueId place) {
  const auto last = static_cast<ValueId>(state.graph.nodes.size() - 1);
  const auto moved = [&](ValueId id) { return id == last ? place : id < place ? id : id + 1; };
  std::rotate(state.graph.nodes.begin() + place, state.graph.nodes.end() - 1,
              state.graph.nodes.end());
  for (Node& node : state.graph.nodes) {
    for (ValueId& arg : node.args) arg = moved(arg);
  }
  for (ir::Output& output : state.graph.outputs) output.value = moved(output.value);
  for (ValueId& id : state.nodes) id = moved(id);
}

// Adds an input or scalar, behind the others and before all ops.
void add_input(GraphState& state, Node node) {
  const auto& nodes = state.graph.nodes;
  const auto place = std::find_if_not(nodes.begin(), nodes.end(), is_bound) - nodes.begin();
  state.nodes.push_back(ir::append(state.graph, std::move(node)));
  move_last_node(state, static_cast<ValueId>(place));
}

// Nothing but the tensors bound to inputs can give a symbol its value.
void check_symbols(const Value& x, const std::vector<Dim>& dims, Op op) {
  const auto uses = [](const std::vector<Dim>& list, const std::string& symbol) {
    return std::any_of(list.begin(), list.end(), [&](const Dim& dim) {
      const auto symbols = dim.symbols();
      return std::find(symbols.begin(), symbols.end(), symbol) != symbols.end();
    });
  };
  for (const Dim& dim : dims) {
    for (const std::string& symbol : dim.symbols()) {
      const auto& nodes = Access::state(x).graph.nodes;
      const bool declared = std::any_of(nodes.begin(), nodes.end(), [&](const Node& node) {
        return node.op == Op::input &&
               (uses(node.type.shape, symbol) || uses(node.type.strides, symbol));
      });
      if (!declared) {
        throw GraphError(fmt::format(
            "{} expects size symbols that the type of an input uses, got '{}' in {}; nothing else "
            "could give it a value",
            ir::name(op), symbol, ir::print(dims)));
      }
    }
  }
}

Value unary(Op op, const Value& x) { return Access::make(Node{.op = op}, {x}); }
Value block(Op op, const Value& x, int rows) {
  return Access::make(Node{.op = op, .block_rows = rows}, {x});
}
Value binary(Op op, const Value& a, const Value& b) { return Access::make(Node{.op = op}, {a, b}); }
Value binary(Op op, const Value& a, double b) { return binary(op, a, Access::constant(a, b)); }
Value binary(Op op, double a, const Value& b) { return binary(op, Access::constant(b, a), b); }

// The shape of `x` with another first size.
Value with_rows(Op op, const Value& x, const Value& integers, const Dim& num_rows) {
  std::vector<Dim> shape = x.shape();
  if (!shape.empty()) shape.front() = num_rows;
  check_symbols(x, {num_rows}, op);
  return Access::make(Node{.op = op, .type = {DType::f32, shape, {}}}, {x, integers});
}

}  // namespace

DType Value::dtype() const { return Access::node(*this).type.dtype; }
std::vector<Dim> Value::shape() const { return Access::node(*this).type.shape; }

Graph::Graph(std::string_view name) : state_(std::make_shared<GraphState>()) {
  state_->graph.name = ir::sanitize(name);
}

Graph Graph::parse(std::string_view text) {
  auto state = std::make_shared<GraphState>();
  state->graph = ir::parse(text);
  return Graph(std::move(state));
}

const ir::Graph& Graph::ir() const { return state_->graph; }
std::string Graph::str() const { return ir::print(state_->graph); }

Value Graph::input(std::string_view name, DType dtype, const std::vector<Dim>& shape,
                   const std::vector<Dim>& strides) {
  add_input(*state_,
            Node{.op = Op::input, .name = ir::sanitize(name), .type = {dtype, shape, strides}});
  return {state_, state_->nodes.size() - 1};
}

Value Graph::scalar(std::string_view name) {
  add_input(*state_, Node{.op = Op::scalar, .name = ir::sanitize(name)});
  return {state_, state_->nodes.size() - 1};
}

Value Graph::constant(double value) {
  if (std::isfinite(value) && std::isinf(round_to(value, DType::f32))) {
    throw GraphError(fmt::format("constant expects a number in the range of f32, got {}", value));
  }
  Node node{.op = Op::constant, .name = fmt::format("c{}", state_->num_constants), .value = value};
  state_->nodes.push_back(ir::append(state_->graph, std::move(node)));
  ++state_->num_constants;
  return {state_, state_->nodes.size() - 1};
}

void Graph::output(std::string_view name, const Value& value) {
  if (value.state_ != state_) {
    throw ArgumentError(fmt::format(
        "output '{}' of graph '{}' expects a value of it, got '{}' of "
        "graph '{}'",
        name, state_->graph.name, Access::node(value).name, Access::state(value).graph.name));
  }
  const auto is_taken = [&](const std::string& word) {
    const ir::Graph& graph = state_->graph;
    return std::any_of(graph.nodes.begin(), graph.nodes.end(),
                       [&](const Node& node) { return is_bound(node) && node.name == word; }) ||
           std::any_of(graph.outputs.begin(), graph.outputs.end(),
                       [&](const ir::Output& output) { return output.name == word; });
  };
  const std::string wanted = ir::sanitize(name);
  std::string free = wanted;
  for (int i = 2; is_taken(free); ++i) free = fmt::format("{}_{}", wanted, i);
  state_->graph.outputs.push_back({free, Access::id(value)});
}

Value matmul(const Value& a, const Value& b) { return matmul(a, b, ir::usual_result(a.dtype())); }
Value matmul(const Value& a, const Value& b, DType result, Sums sums) {
  return Access::make(
      Node{.op = Op::matmul, .type = {result, {}, {}}, .promoted = sums == Sums::promoted}, {a, b});
}

Value scaled_matmul(const Value& a, const Value& b, const Value& a_scales, const Value& b_scales,
                    DType result) {
  return Access::make(Node{.op = Op::scaled_matmul, .type = {result, {}, {}}},
                      {a, b, a_scales, b_scales});
}

Value scaled_grouped_matmul(const Value& x, const Value& w, const Value& ends,
                            const Value& x_scales, const Value& w_scales, DType result) {
  return Access::make(Node{.op = Op::scaled_grouped_matmul, .type = {result, {}, {}}},
                      {x, w, ends, x_scales, w_scales});
}

Value grouped_matmul(const Value& x, const Value& w, const Value& ends) {
  return grouped_matmul(x, w, ends, ir::usual_result(x.dtype()));
}
Value grouped_matmul(const Value& x, const Value& w, const Value& ends, DType result, Sums sums) {
  return Access::make(
      Node{.op = Op::grouped_matmul, .type = {result, {}, {}}, .promoted = sums == Sums::promoted},
      {x, w, ends});
}

Value k_grouped_matmul(const Value& a, const Value& b, const Value& ends) {
  return k_grouped_matmul(a, b, ends, ir::usual_result(a.dtype()));
}
Value k_grouped_matmul(const Value& a, const Value& b, const Value& ends, DType result, Sums sums) {
  return Access::make(
      Node{
          .op = Op::k_grouped_matmul, .type = {result, {}, {}}, .promoted = sums == Sums::promoted},
      {a, b, ends});
}

Value take_rows(const Value& x, const Value& index) { return binary(Op::take_rows, x, index); }
Value repeat_rows(const Value& x, const Value& ends, const Dim& num_rows) {
  return with_rows(Op::repeat_rows, x, ends, num_rows);
}
Value put_rows(const Value& x, const Value& index, const Dim& num_rows) {
  return with_rows(Op::put_rows, x, index, num_rows);
}

Value transpose(const Value& x) {
  std::vector<int> permutation(x.shape().size());
  if (permutation.size() < 2) {
    throw GraphError("transpose without a permutation expects a value of at least 2 dims, got " +
                     ir::print(Access::node(x).type));
  }
  std::iota(permutation.begin(), permutation.end(), 0);
  std::swap(permutation.end()[-1], permutation.end()[-2]);
  return transpose(x, permutation);
}
Value transpose(const Value& x, const std::vector<int>& permutation) {
  return Access::make(Node{.op = Op::transpose, .permutation = permutation}, {x});
}

Value reshape(const Value& x, const std::vector<Dim>& shape) {
  check_symbols(x, shape, Op::reshape);
  return Access::make(Node{.op = Op::reshape, .type = {DType::f32, shape, {}}}, {x});
}

Value slice(const Value& x, const std::vector<Range>& ranges) {
  Node node{.op = Op::slice};
  for (const Range& range : ranges) {
    check_symbols(x, {range.start, range.stop}, Op::slice);
    node.ranges.push_back({range.start, range.stop, range.step});
  }
  return Access::make(std::move(node), {x});
}

Value broadcast(const Value& x, const std::vector<Dim>& shape) {
  check_symbols(x, shape, Op::broadcast);
  return Access::make(Node{.op = Op::broadcast, .type = {DType::f32, shape, {}}}, {x});
}

Value cast(const Value& x, DType dtype) {
  return Access::make(Node{.op = Op::cast, .type = {dtype, {}, {}}}, {x});
}

Value apply(std::string_view op, const std::vector<Value>& operands) {
  std::vector<std::string_view> names;
  for (const ir::OpInfo& row : ir::all_ops()) {
    if (!ir::is_elementwise(row.op) || row.op == Op::cast) continue;
    names.push_back(row.name);
    if (row.name != op) continue;
    if (operands.empty()) {
      throw GraphError(
          fmt::format("{} expects {} operand{}, got 0", op, row.arity, row.arity == 1 ? "" : "s"));
    }
    return Access::make(Node{.op = row.op}, operands);
  }
  throw ArgumentError(fmt::format("apply expects the name of an elementwise op, got '{}'{}",
                                  ir::escape(op), did_you_mean(op, names)));
}

Value operator+(const Value& a, const Value& b) { return binary(Op::add, a, b); }
Value operator-(const Value& a, const Value& b) { return binary(Op::sub, a, b); }
Value operator*(const Value& a, const Value& b) { return binary(Op::mul, a, b); }
Value operator/(const Value& a, const Value& b) { return binary(Op::div, a, b); }
Value operator-(const Value& a) { return unary(Op::neg, a); }
Value operator+(const Value& a, double b) { return binary(Op::add, a, b); }
Value operator-(const Value& a, double b) { return binary(Op::sub, a, b); }
Value operator*(const Value& a, double b) { return binary(Op::mul, a, b); }
Value operator/(const Value& a, double b) { return binary(Op::div, a, b); }
Value operator+(double a, const Value& b) { return binary(Op::add, a, b); }
Value operator-(double a, const Value& b) { return binary(Op::sub, a, b); }
Value operator*(double a, const Value& b) { return binary(Op::mul, a, b); }
Value operator/(double a, const Value& b) { return binary(Op::div, a, b); }

Value row_sum(const Value& x) { return unary(Op::row_sum, x); }
Value row_max(const Value& x) { return unary(Op::row_max, x); }
Value col_sum(const Value& x) { return unary(Op::col_sum, x); }
Value col_max(const Value& x) { return unary(Op::col_max, x); }
Value block_max(const Value& x, int rows) { return block(Op::block_max, x, rows); }
Value block_first(const Value& x, int rows) { return block(Op::block_first, x, rows); }
Value concat(const Value& a, const Value& b) { return binary(Op::concat, a, b); }
Value interleave(const Value& a, const Value& b) { return binary(Op::interleave, a, b); }
Value min(const Value& a, const Value& b) { return binary(Op::min, a, b); }
Value max(const Value& a, const Value& b) { return binary(Op::max, a, b); }
Value min(const Value& a, double b) { return binary(Op::min, a, b); }
Value max(const Value& a, double b) { return binary(Op::max, a, b); }
Value pow(const Value& a, const Value& b) { return binary(Op::pow, a, b); }
Value abs(const Value& x) { return unary(Op::abs, x); }
Value sqrt(const Value& x) { return unary(Op::sqrt, x); }
Value rsqrt(const Value& x) { return unary(Op::rsqrt, x); }
Value square(const Value& x) { return unary(Op::square, x); }
Value exp(const Value& x) { return unary(Op::exp, x); }
Value exp2(const Value& x) { return unary(Op::exp2, x); }
Value log2(const Value& x) { return unary(Op::log2, x); }
Value ceil(const Value& x) { return unary(Op::ceil, x); }
Value floor(const Value& x) { return unary(Op::floor, x); }
Value log(const Value& x) { return unary(Op::log, x); }
Value tanh(const Value& x) { return unary(Op::tanh, x); }
Value erf(const Value& x) { return unary(Op::erf, x); }
Value sigmoid(const Value& x) { return unary(Op::sigmoid, x); }
Value silu(const Value& x) { return unary(Op::silu, x); }
Value gelu_erf(const Value& x) { return unary(Op::gelu_erf, x); }
Value gelu_tanh(const Value& x) { return unary(Op::gelu_tanh, x); }
Value relu(const Value& x) { return unary(Op::relu, x); }
Value leaky_relu(const Value& x, double slope) { return binary(Op::leaky_relu, x, slope); }
Value softplus(const Value& x) { return unary(Op::softplus, x); }
Value hardswish(const Value& x) { return unary(Op::hardswish, x); }
Value clamp(const Value& x, double low, double high) {
  const Value least = Access::constant(x, low), most = Access::constant(x, high);
  return Access::make(Node{.op = Op::clamp}, {x, least, most});
}
Value select(const Value& condition, const Value& a, const Value& b) {
  return Access::make(Node{.op = Op::select}, {condition, a, b});
}
Value lt(const Value& a, const Value& b) { return binary(Op::lt, a, b); }
Value le(const Value& a, const Value& b) { return binary(Op::le, a, b); }
Value gt(const Value& a, const Value& b) { return binary(Op::gt, a, b); }
Value ge(const Value& a, const Value& b) { return binary(Op::ge, a, b); }
Value eq(const Value& a, const Value& b) { return binary(Op::eq, a, b); }
Value ne(const Value& a, const Value& b) { return binary(Op::ne, a, b); }

}  // namespace epifuse
