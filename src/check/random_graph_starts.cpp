// Starts of random graphs with a form of their own: block scales, sums of groups, gates of halves,
// heads, batches that broadcast, products side by side and results that are quantised.
#include <algorithm>
#include <span>
#include <vector>

#include "base/ceil_div.h"
#include "check/random_graph_generator.h"

namespace epifuse {

using ir::Node;
using ir::Op;
using ir::Shape;
using ir::ValueId;

namespace {

Shape joined(Shape lead, const Dim& rows, const Dim& cols) {
  lead.push_back(rows);
  lead.push_back(cols);
  return lead;
}

}  // namespace

ValueId RandomGraphGenerator::add_start() {
  const std::size_t kind = below(100);
  if (kind < 12) return add_grouped();
  if (kind < 22) return add_scaled();
  if (kind < 26) return add_k_grouped();
  if (kind < 34) return add_halves();
  if (kind < 38) return add_heads();
  if (kind < 46) return add_wide_batch();
  return add_product();
}

// How many blocks of 128 this size has: a number of one, a symbol of a symbol.
Dim RandomGraphGenerator::blocks(const char* symbol, const Dim& size) {
  const std::int64_t count = ceil_div(value(size), std::int64_t{128});
  if (size.constant()) return count;
  sizes_[symbol] = count;
  return Dim(symbol);
}

// An input [.., rows, cols], or the transpose of one.
ValueId RandomGraphGenerator::add_either_way(DType dtype, const Shape& lead, const Dim& rows,
                                             const Dim& cols) {
  if (chance(60)) return add_input(dtype, joined(lead, rows, cols));
  Node node{.op = Op::transpose, .args = {add_input(dtype, joined(lead, cols, rows))}};
  for (std::size_t d = 0; d < lead.size() + 2; ++d) node.permutation.push_back(static_cast<int>(d));
  std::swap(node.permutation.end()[-1], node.permutation.end()[-2]);
  return ir::append(graph_, std::move(node));
}

ValueId RandomGraphGenerator::add_scaled() {
  is_fp8_ = true, is_i8_ = false;
  const bool is_grouped = chance(35), is_padded = is_grouped && chance(40);
  const bool is_batched = !is_grouped && chance(25);
  if (!is_grouped && !is_batched) no_batch();
  Node node{.op = is_grouped ? Op::scaled_grouped_matmul : Op::scaled_matmul};
  node.transpose_a = !is_grouped && chance(15);
  node.transpose_b = chance(70);
  const Shape lead_a = is_padded || is_batched ? Shape{b_} : Shape{};
  const Shape lead_b = is_grouped || is_batched ? Shape{b_} : Shape{};
  const Dim blocks_of_k = blocks("KB", k_);
  node.args = {add_input(operand_dtype(),
                         node.transpose_a ? joined(lead_a, k_, m_) : joined(lead_a, m_, k_)),
               add_input(operand_dtype(),
                         node.transpose_b ? joined(lead_b, n_, k_) : joined(lead_b, k_, n_))};
  if (is_grouped) node.args.push_back(add_input(chance(50) ? DType::i32 : DType::i64, {b_}));
  node.args.push_back(add_either_way(DType::f32, lead_a, m_, blocks_of_k));
  const Dim rows = chance(50) ? n_ : blocks("NB", n_);
  node.args.push_back(add_either_way(DType::f32, lead_b, rows, blocks_of_k));
  node.type.dtype = chance(70) ? dtype_ : DType::f32;
  return ir::append(graph_, std::move(node));
}

ValueId RandomGraphGenerator::add_k_grouped() {
  Node node{.op = Op::k_grouped_matmul};
  node.transpose_a = chance(60);
  node.transpose_b = chance(20);
  const DType dtype = operand_dtype();
  const DType other = is_fp8_ ? operand_dtype() : dtype;
  node.args = {add_input(dtype, node.transpose_a ? Shape{k_, m_} : Shape{m_, k_}),
               add_input(other, node.transpose_b ? Shape{n_, k_} : Shape{k_, n_}),
               add_input(chance(50) ? DType::i32 : DType::i64, {b_})};
  node.type.dtype = chance(70) ? dtype_ : DType::f32;
  return ir::append(graph_, std::move(node));
}

// Halves of the columns of one product, or every other one, behind a bias of all of them: a gate.
ValueId RandomGraphGenerator::add_halves() {
  no_batch();
  const Dim both = n_ * 2;
  Node node{.op = Op::matmul};
  node.transpose_b = chance(70);
  node.args = {add_input(operand_dtype(), {m_, k_}),
               add_input(operand_dtype(), node.transpose_b ? Shape{both, k_} : Shape{k_, both})};
  if (n_.symbol()) add_input(dtype_, {n_});  // says what N is
  node.type.dtype = dtype_;
  ValueId product = ir::append(graph_, std::move(node));
  if (chance(60)) {
    const ValueId bias = add_input(dtype_, {both});
    product = ir::append(graph_, Node{.op = Op::add, .args = {product, bias}});
  }
  const bool is_alternating = chance(40) && n_ != Dim{};  // of no columns there is no second one
  const auto half = [&](const Dim& start, const Dim& stop, std::int64_t step) {
    Node slice{.op = Op::slice, .args = {product}};
    slice.ranges = {{Dim{}, m_, 1}, {start, stop, step}};
    return ir::append(graph_, std::move(slice));
  };
  const ValueId first = is_alternating ? half(0, both, 2) : half(0, n_, 1);
  const ValueId second = is_alternating ? half(1, both, 2) : half(n_, both, 1);
  constexpr Op kActs[] = {Op::silu, Op::gelu_erf, Op::gelu_tanh, Op::sigmoid, Op::relu};
  const ValueId act =
      ir::append(graph_, Node{.op = kActs[below(5)], .args = {chance(80) ? first : second}});
  const ValueId gated = ir::append(
      graph_, Node{.op = Op::mul, .args = {act, graph_[act].args[0] == first ? second : first}});
  if (chance(30)) add_projection(gated);
  return gated;
}

// Of a value and new weights.
void RandomGraphGenerator::add_projection(ValueId x) {
  const ir::TensorType type = graph_[x].type;  // a copy: inputs move values
  if (type.shape.size() < 2 || !is_float(type.dtype)) return;
  constexpr std::int64_t kColumns[] = {1, 7, 8, 40, 64, 72};
  Node node{.op = Op::matmul, .args = {x}};
  node.transpose_b = chance(60);
  const Dim columns = kColumns[below(std::size(kColumns))], k = type.shape.back();
  node.args.push_back(
      add_input(type.dtype, node.transpose_b ? Shape{columns, k} : Shape{k, columns}));
  node.type.dtype = is_fp8(type.dtype) || chance(20) ? DType::f32 : type.dtype;
  try_append(std::move(node));
}

// Heads of a projection with a vector, with rotary positions, or with both.
ValueId RandomGraphGenerator::add_heads() {
  no_batch();
  constexpr std::int64_t kHalves[] = {1, 2, 4, 5, 8, 16, 32, 64};
  const Dim half = kHalves[below(std::size(kHalves))],
            heads{static_cast<std::int64_t>(1 + below(4))};
  const Dim depth = half * 2;
  sizes_.erase("N");
  n_ = heads * depth;
  Node node{.op = Op::matmul, .transpose_b = true};
  node.args = {add_input(operand_dtype(), {m_, k_}), add_input(weights_dtype(), {n_, k_})};
  node.type.dtype = dtype_;
  const ValueId product = ir::append(graph_, std::move(node));
  Node split{.op = Op::reshape, .args = {product}};
  split.type.shape = {m_, heads, depth};
  ValueId x = ir::append(graph_, std::move(split));
  if (chance(50)) {
    const Shape shapes[] = {{heads, depth},  {1, heads, depth}, {m_, 1, 1}, {m_, heads, depth},
                            {heads, Dim{1}}, {depth},           {1},        {}};
    const ValueId operand = add_input(dtype_, shapes[below(std::size(shapes))]);
    x = ir::append(graph_, Node{.op = chance(50) ? Op::add : Op::mul, .args = {x, operand}});
    if (chance(50)) return x;
  }
  const bool is_moved = chance(60);
  if (is_moved) {
    Node moved{.op = Op::transpose, .args = {x}, .permutation = {1, 0, 2}};
    x = ir::append(graph_, std::move(moved));
  }
  const Shape shape = graph_[x].type.shape,
              table = is_moved ? Shape{m_, depth} : Shape{m_, 1, depth};
  const auto part = [&](const Dim& start, const Dim& stop) {
    Node slice{.op = Op::slice, .args = {x}};
    slice.ranges = {{Dim{}, shape[0], 1}, {Dim{}, shape[1], 1}, {start, stop, 1}};
    return ir::append(graph_, std::move(slice));
  };
  const ValueId first = part(0, half);
  const ValueId second = ir::append(graph_, Node{.op = Op::neg, .args = {part(half, depth)}});
  const ValueId turned = ir::append(graph_, Node{.op = Op::concat, .args = {second, first}});
  const ValueId cosine = add_input(dtype_, table), sine = add_input(dtype_, table);
  const ValueId left = ir::append(graph_, Node{.op = Op::mul, .args = {x, cosine}});
  const ValueId right = ir::append(graph_, Node{.op = Op::mul, .args = {turned, sine}});
  return ir::append(graph_, Node{.op = Op::add, .args = {left, right}});
}

// Of 4 or 5 dims; each batch dim is that of both operands or of one of them.
ValueId RandomGraphGenerator::add_wide_batch() {
  const Dim others[] = {b_, Dim{static_cast<std::int64_t>(1 + below(3))}, Dim{2}};
  const std::size_t rank = chance(80) ? 2 : 3;
  Shape lead_a, lead_b;
  for (std::size_t d = 0; d < rank; ++d) {
    const std::size_t kind = below(4);
    lead_a.push_back(kind == 1 ? Dim{1} : others[d]);
    lead_b.push_back(kind == 2 ? Dim{1} : others[d]);
  }
  if (chance(20)) lead_b.erase(lead_b.begin());
  const auto count = [&](const Shape& lead, const Dim& rows, const Dim& cols) {
    return num_elements(joined(lead, rows, cols));
  };
  if (std::max({count(lead_a, m_, k_), count(lead_b, k_, n_),
                count({others, others + rank}, m_, n_)}) > kMostElements) {
    return add_product();
  }
  Node node{.op = Op::matmul};
  node.transpose_a = chance(15);
  node.transpose_b = chance(60);
  node.args = {add_input(operand_dtype(),
                         node.transpose_a ? joined(lead_a, k_, m_) : joined(lead_a, m_, k_)),
               add_input(operand_dtype(),
                         node.transpose_b ? joined(lead_b, n_, k_) : joined(lead_b, k_, n_))};
  node.type.dtype = chance(70) ? dtype_ : DType::f32;
  if (b_.symbol()) add_input(dtype_, {b_});  // says what B is
  return ir::append(graph_, std::move(node));
}

// More products of the first one's input, each of its own columns and with a bias.
void RandomGraphGenerator::add_beside(ValueId product) {
  if (graph_[product].op != Op::matmul) return;
  constexpr std::int64_t kColumns[] = {1, 8, 24, 64, 65};
  for (std::size_t count = 1 + below(3); count > 0; --count) {
    Node next = graph_[product];
    next.name.clear();
    const ir::TensorType weights = graph_[next.args[1]].type;
    Shape shape = weights.shape;
    shape[shape.size() - (next.transpose_b ? 2 : 1)] =
        chance(50) ? n_ : Dim{kColumns[below(std::size(kColumns))]};
    if (num_elements(shape) > kMostElements) return;
    next.args[1] = add_input(weights.dtype, shape);
    const DType dtype = next.type.dtype;
    if (!try_append(std::move(next)) || chance(30)) continue;
    const ValueId value = last();
    const ValueId bias = add_input(dtype, {graph_[value].type.shape.back()});
    try_append(Node{.op = Op::add, .args = {value, bias}});
  }
}

// As e4m3 with scales of rows, or of blocks of columns by either text.
void RandomGraphGenerator::add_quantised(ValueId x) {
  const Shape shape = graph_[x].type.shape;
  if (shape.size() < 2 || !is_float(graph_[x].type.dtype) || is_narrow(graph_[x].type.dtype))
    return;
  const auto columns = shape.back().constant();
  const std::size_t kind = below(3);
  const bool by_reshape = kind == 2 && shape.size() < 6 && columns && *columns % 128 == 0;
  ValueId value = x;
  const auto reshape = [&](ValueId operand, const Shape& to) {
    Node node{.op = Op::reshape, .args = {operand}};
    node.type.shape = to;
    return try_append(std::move(node));
  };
  if (by_reshape) {
    Shape split = shape;
    split.back() = *columns / 128;
    split.push_back(128);
    if (!reshape(x, split)) return;
    value = last();
  }
  try_append(Node{.op = Op::abs, .args = {value}});
  const Op largest = kind == 0 || by_reshape ? Op::row_max : Op::block_max;
  if (!try_append(Node{.op = largest, .args = {last()}})) return;
  const ValueId top = last();
  const ValueId most = ir::append(graph_, Node{.op = Op::constant, .value = 448});
  try_append(Node{.op = Op::div, .args = {top, most}});
  const ValueId scale = last();
  const ValueId least = ir::append(graph_, Node{.op = Op::constant, .value = 1e-5});
  try_append(Node{.op = Op::max, .args = {scale, least}});
  const ValueId bounded = last();
  if (!try_append(Node{.op = Op::div, .args = {value, bounded}})) return;
  if (by_reshape) reshape(last(), shape);
  Node narrow{.op = Op::cast, .args = {last()}};
  narrow.type.dtype = DType::e4m3;
  try_append(std::move(narrow));
  const ValueId quantised = last();
  if (largest == Op::block_max) try_append(Node{.op = Op::block_first, .args = {bounded}});
  if (chance(20)) add_projection(quantised);
}

}  // namespace epifuse
