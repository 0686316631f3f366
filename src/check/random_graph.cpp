// The starts of random graphs: sizes, products, operands of their epilogues and outputs.
#include "check/random_graph_generator.h"

#include <fmt/format.h>

#include <algorithm>
#include <random>
#include <span>
#include <vector>

#include "epifuse/error.h"
#include "ir/text.h"

namespace epifuse {
using ir::Node;
using ir::Op;
using ir::Shape;
using ir::ValueId;

namespace {

// Around multiples of what instructions, vectors and tiles take.
constexpr std::int64_t kRows[] = {1,  1,  1,  2,  3,  5,  7,  8,  9,   15,  16,  17,
                                  31, 33, 47, 49, 63, 64, 65, 97, 127, 128, 129, 190};
constexpr std::int64_t kColumns[] = {1,  2,  3,  5,  6,  7,  8,  15, 16,  17,  24,  31,
                                     32, 33, 41, 57, 63, 64, 65, 79, 120, 128, 136, 141};
constexpr std::int64_t kInner[] = {1,  2,  3,  7,   8,   15,  16,  17,  24,   31,   32,   33,  48,
                                   63, 64, 65, 95,  96,  127, 128, 136, 191,  255,  256,  31,  63,
                                   95, 64, 72, 128, 160, 447, 543, 777, 1024, 1407, 2047, 2111};
constexpr std::int64_t kBatches[] = {1, 1, 2, 2, 3, 5};

// Of what is read beside a result of this shape: tiles, rows, columns, numbers.
std::vector<Shape> operand_shapes(const Shape& space) {
  Shape rows = space, batches = space;
  rows.back() = 1;
  batches.back() = batches.end()[-2] = 1;
  return {space, space, {space.back()}, {space.back()}, rows, rows, batches, {}, {1}};
}

}  // namespace

RandomGraph RandomGraphGenerator::make() {
  constexpr DType kDTypes[] = {DType::bf16, DType::bf16, DType::f16, DType::f32};
  dtype_ = kDTypes[below(4)];
  is_fp8_ = chance(20);
  if (is_fp8_ && chance(30)) {
    is_fp8_ = false;
    is_i8_ = true;
  }
  pick_sizes();
  const ValueId product = add_start();
  add_vectors(graph_[product].type.shape);
  if (chance(20)) add_gate(product);
  if (chance(10)) add_chain(product);
  if (chance(8)) add_beside(product);
  if (chance(8)) add_quantised(last());
  const std::size_t num_ops = 1 + below(chance(20) ? 40 : 12);
  for (std::size_t i = 0; i < num_ops; ++i) add_op();
  add_outputs();
  return {ir::parse(ir::print(graph_)), std::move(sizes_), chance(15)};
}

// A symbol or a number.
Dim RandomGraphGenerator::size(const char* symbol, std::span<const std::int64_t> list) {
  const std::int64_t number = one_of(list);
  if (chance(40)) return number;
  sizes_.emplace(symbol, number);
  return Dim(symbol);
}

void RandomGraphGenerator::pick_sizes() {
  do {
    sizes_.clear();
    m_ = size("M", kRows), n_ = size("N", kColumns), k_ = size("K", kInner);
    b_ = size("B", kBatches);
  } while (std::max({value(m_) * value(k_), value(n_) * value(k_), value(m_) * value(n_)}) *
               value(b_) >
           kMostElements);
  if (chance(5)) {
    const std::size_t which = below(3);
    Dim& size = which == 0 ? m_ : which == 1 ? n_ : k_;
    if (const auto symbol = size.symbol()) {
      sizes_[*symbol] = 0;
    } else {
      size = 0;
    }
  }
}

std::int64_t RandomGraphGenerator::num_elements(const Shape& shape) const {
  std::int64_t count = 1;
  for (const Dim& dim : shape) count *= value(dim);
  return count;
}

ValueId RandomGraphGenerator::add_input(DType dtype, const Shape& shape) {
  Node node;
  node.name = fmt::format("x{}", graph_.nodes.size());
  node.type = {dtype, shape, {}};
  const std::size_t rank = shape.size();
  if (rank >= 2 && !is_integer(dtype) && chance(15)) {  // column-major, padded or repeated
    std::vector<std::int64_t> strides(rank, 1);
    const bool is_column_major = chance(40), repeats = chance(15);
    std::int64_t inner = is_column_major ? rank - 2 : rank - 1, extent = 1;
    for (std::size_t d = rank; d-- > 0;) {
      std::size_t dim = d;
      if (is_column_major && d + 2 >= rank) dim = d + 1 == rank ? rank - 2 : rank - 1;
      strides[dim] = static_cast<std::int64_t>(dim) == inner ? 1 : extent;
      extent = strides[dim] * value(shape[dim]) + (chance(30) ? 1 + 7 * below(2) : 0);
    }
    if (repeats) strides[0] = 0;
    for (const std::int64_t stride : strides) node.type.strides.emplace_back(stride);
  }
  return ir::append(graph_, node);
}

// What the ops around a result of this shape may read.
void RandomGraphGenerator::add_vectors(Shape space) {
  const Shape columns{space.back()};
  Shape rows = space;
  rows.back() = 1;
  for (const Shape& shape : operand_shapes(space)) {
    if (chance(35)) continue;
    add_input(chance(80) ? dtype_ : chance(50) ? DType::f32 : DType::bf16, shape);
  }
  if (chance(20)) add_input(DType::boolean, chance(50) ? space : chance(50) ? columns : rows);
  if (chance(10)) add_input(DType::e4m3, columns);
  if (chance(30)) ir::append(graph_, Node{.op = Op::scalar, .name = "alpha"});
  constexpr double kConstants[] = {0, -0.0, 1, -1, 0.5, 2, 3, 6, 0.7071, 1e-3};
  for (int i = 0; i < 2; ++i) {
    ir::append(graph_, Node{.op = Op::constant, .value = kConstants[below(10)]});
  }
}

bool RandomGraphGenerator::try_append(Node node) {
  try {
    const ValueId id = ir::append(graph_, std::move(node));
    if (num_elements(graph_[id].type.shape) <= kMostElements) return true;
    graph_.nodes.pop_back();
    return false;
  } catch (const GraphError&) {
    return false;
  }
}

// Of an operand of the first product.
DType RandomGraphGenerator::operand_dtype() {
  if (is_i8_) return DType::i8;
  if (!is_fp8_) return dtype_;
  return chance(70) ? DType::e4m3 : DType::e5m2;
}

// Of its second one: weights may be kept in 8 bits.
DType RandomGraphGenerator::weights_dtype() {
  constexpr DType kNarrow[] = {DType::i8, DType::i8, DType::e4m3, DType::e5m2};
  const DType dtype = operand_dtype();
  return size_bytes(dtype) == 2 && chance(12) ? kNarrow[below(4)] : dtype;
}

// Where no input would say what B is.
void RandomGraphGenerator::no_batch() {
  sizes_.erase("B");
  b_ = 1;
}

ValueId RandomGraphGenerator::add_product() {
  const bool batched_a = chance(30), batched_b = batched_a && chance(50);
  if (!batched_a) no_batch();
  Node node{.op = Op::matmul};
  node.transpose_a = chance(15);
  node.transpose_b = chance(60);
  const auto shape = [](bool batched, const Dim& batch, Dim rows, Dim cols, bool transposed) {
    if (transposed) std::swap(rows, cols);
    return batched ? Shape{batch, rows, cols} : Shape{rows, cols};
  };
  node.args = {add_input(operand_dtype(), shape(batched_a, b_, m_, k_, node.transpose_a)),
               add_input(weights_dtype(), shape(batched_b, b_, k_, n_, node.transpose_b))};
  node.type.dtype = chance(70) ? dtype_ : DType::f32;
  node.promoted = is_fp8_ && chance(30);
  return ir::append(graph_, std::move(node));
}

// Rows of groups, by their ends or by their sizes, which may be looked up.
ValueId RandomGraphGenerator::add_grouped() {
  const DType integers = chance(50) ? DType::i32 : DType::i64;
  const bool is_padded = chance(30);
  ValueId x = add_input(operand_dtype(), is_padded ? Shape{b_, m_, k_} : Shape{m_, k_});
  Node node{.op = Op::grouped_matmul};
  node.transpose_b = chance(60);
  const ValueId w =
      add_input(operand_dtype(), node.transpose_b ? Shape{b_, n_, k_} : Shape{b_, k_, n_});
  const ValueId groups = add_input(integers, {b_});
  if (!is_padded && chance(40)) {
    const ValueId index = add_input(integers, {m_});
    x = ir::append(graph_, Node{.op = Op::take_rows, .args = {x, index}});
  }
  node.args = {x, w, groups};
  node.type.dtype = chance(70) ? dtype_ : DType::f32;
  node.promoted = is_fp8_ && chance(30);
  const ValueId product = ir::append(graph_, std::move(node));
  if (!is_padded && chance(50)) {
    Node repeat{.op = Op::repeat_rows, .args = {add_input(dtype_, {b_, n_}), groups}};
    repeat.type.shape = {m_, n_};
    ir::append(graph_, std::move(repeat));
  }
  return product;
}

// A second product of the first one's input, and an op that takes both.
void RandomGraphGenerator::add_gate(ValueId gate) {
  Node second = graph_[gate];
  second.name.clear();
  const ir::TensorType weights = graph_[second.args[1]].type;
  second.args[1] = add_input(weights.dtype, weights.shape);
  if (!try_append(std::move(second))) return;
  const ValueId up = last();
  constexpr Op kActs[] = {Op::silu, Op::gelu_erf, Op::gelu_tanh, Op::sigmoid, Op::relu};
  if (!try_append(Node{.op = kActs[below(5)], .args = {gate}})) return;
  try_append(Node{.op = Op::mul, .args = {last(), up}});
}

// Works on a value with many operands of one kind: more than a kernel takes.
void RandomGraphGenerator::add_chain(ValueId value) {
  const std::vector<Shape> shapes = operand_shapes(graph_[value].type.shape);
  const Shape shape = shapes[below(shapes.size())];
  for (std::size_t count = 3 + below(9); count > 0; --count) {
    const ValueId operand = add_input(graph_[value].type.dtype, shape);
    if (!try_append(Node{.op = chance(50) ? Op::mul : Op::add, .args = {value, operand}})) return;
    value = last();
  }
}

void RandomGraphGenerator::add_outputs() {
  const std::size_t count = 1 + (chance(50) ? 0 : below(4));
  const auto is_result = [](const Node& node) {
    return !ir::is_source(node.op) && !is_integer(node.type.dtype);
  };
  std::vector<ValueId> results;
  for (ValueId id = 0; id <= last(); ++id) {
    if (is_result(graph_[id])) results.push_back(id);
  }
  for (std::size_t i = 0; i < count; ++i) {
    const std::size_t span = chance(70) ? std::min<std::size_t>(results.size(), 4) : results.size();
    graph_.outputs.push_back({fmt::format("out{}", i), results[results.size() - 1 - below(span)]});
  }
}

RandomGraph random_graph(std::uint64_t seed) { return RandomGraphGenerator(seed).make(); }

}  // namespace epifuse
