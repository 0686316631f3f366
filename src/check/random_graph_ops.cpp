// The ops of random graphs: each tries operands until one types.
#include <algorithm>
#include <numeric>
#include <span>
#include <vector>

#include "check/random_graph_generator.h"

namespace epifuse {

using ir::Node;
using ir::Op;
using ir::Shape;
using ir::ValueId;

// Late results more often, so that chains get long.
ValueId RandomGraphGenerator::pick() {
  std::vector<ValueId> results, sources;
  for (ValueId id = 0; id <= last(); ++id) {
    const Node& node = graph_[id];
    if (is_integer(node.type.dtype)) continue;
    (ir::is_source(node.op) ? sources : results).push_back(id);
  }
  if (chance(35)) return sources[below(sources.size())];
  const std::size_t late = chance(80) ? std::min<std::size_t>(results.size(), 3) : results.size();
  return results[results.size() - 1 - below(late)];
}

// One of this dtype or a 0-d number, if a few tries find one.
ValueId RandomGraphGenerator::pick_of(DType dtype) {
  ValueId id = pick();
  for (int i = 0; i < 8 && graph_[id].type.dtype != dtype && !graph_[id].type.shape.empty(); ++i) {
    id = pick();
  }
  return id;
}

void RandomGraphGenerator::add_op() {
  const std::size_t kind = below(100);
  if (kind < 60) return add_elementwise();
  if (kind < 72) return add_cast();
  if (kind < 78) return add_reduction();
  if (kind < 88) return add_view();
  if (kind < 91) return add_join();
  if (kind < 96) return add_matmul();
  add_lookup();
}

void RandomGraphGenerator::add_elementwise() {
  const std::span<const ir::OpInfo> ops = ir::all_ops();
  for (int i = 0; i < 40; ++i) {
    const ir::OpInfo& info = ops[below(ops.size())];
    if (!ir::is_elementwise(info.op) || info.op == Op::cast) continue;
    Node node{.op = info.op};
    node.args.push_back(pick());
    const DType dtype = graph_[node.args[0]].type.dtype;
    while (static_cast<int>(node.args.size()) < info.arity) {
      node.args.push_back(info.kind == ir::OpKind::select ? pick() : pick_of(dtype));
    }
    if (info.kind != ir::OpKind::select && chance(50)) {
      std::reverse(node.args.begin(), node.args.end());
    }
    if (try_append(std::move(node))) return;
  }
}

void RandomGraphGenerator::add_cast() {
  constexpr DType kDTypes[] = {DType::f32, DType::f32,  DType::bf16, DType::bf16,
                               DType::f16, DType::e4m3, DType::e5m2};
  Node node{.op = Op::cast, .args = {pick()}};
  node.type.dtype = kDTypes[below(7)];
  const bool is_narrow = size_bytes(node.type.dtype) == 1;
  if (!try_append(std::move(node)) || !is_narrow || chance(20)) return;
  Node back{.op = Op::cast, .args = {last()}};  // nothing computes in a byte
  back.type.dtype = dtype_;
  try_append(std::move(back));
}

void RandomGraphGenerator::add_reduction() {
  constexpr Op kOps[] = {Op::row_sum, Op::row_max,   Op::col_sum,
                         Op::col_max, Op::block_max, Op::block_first};
  for (int i = 0; i < 10; ++i) {
    if (try_append(Node{.op = kOps[below(6)], .args = {pick()}})) return;
  }
}

void RandomGraphGenerator::add_view() {
  const ValueId operand = pick();
  const Shape shape = graph_[operand].type.shape;
  const std::size_t kind = below(4);
  if (kind == 0) return add_slice(operand);
  if (kind == 1) {
    Node node{.op = Op::transpose, .args = {operand}};
    node.permutation.resize(shape.size());
    std::iota(node.permutation.begin(), node.permutation.end(), 0);
    if (chance(70) && shape.size() >= 2) {
      std::swap(node.permutation.end()[-1], node.permutation.end()[-2]);
    } else {
      std::shuffle(node.permutation.begin(), node.permutation.end(), random_);
    }
    try_append(std::move(node));
    return;
  }
  const Shape shapes[] = {{b_, m_, n_}, {b_ * m_, n_}, {m_, n_},    {m_ * n_},
                          {n_, m_},     {1, m_, n_},   {m_, 1, n_}, {m_, n_, 1},
                          {n_},         {1, n_},       {m_, 1},     {},
                          {1},          {b_, 1, n_},   {n_ * m_, 1}};
  for (int i = 0; i < 12; ++i) {
    Node node{.op = kind == 2 ? Op::reshape : Op::broadcast, .args = {operand}};
    node.type.shape = shapes[below(std::size(shapes))];
    if (try_append(std::move(node))) return;
  }
}

// Halves of columns, every other one, a few rows or anything.
void RandomGraphGenerator::add_slice(ValueId operand) {
  const Shape shape = graph_[operand].type.shape;
  Node node{.op = Op::slice, .args = {operand}};
  for (const Dim& dim : shape) node.ranges.push_back({Dim{}, dim, 1});
  if (shape.empty()) return;
  const std::size_t d = chance(70) ? shape.size() - 1 : below(shape.size());
  const std::int64_t size = value(shape[d]);
  if (size == 0) return;
  const auto start = static_cast<std::int64_t>(below(static_cast<std::size_t>(size)));
  const auto step = static_cast<std::int64_t>(1 + (chance(40) ? below(3) : 0));
  const bool to_end = chance(50);
  node.ranges[d].start = chance(50) ? 0 : start;
  if (!to_end) node.ranges[d].stop = start + 1;
  node.ranges[d].step = step;
  try_append(std::move(node));
}

void RandomGraphGenerator::add_join() {
  for (int i = 0; i < 20; ++i) {
    if (try_append(
            Node{.op = chance(50) ? Op::concat : Op::interleave, .args = {pick(), pick()}})) {
      return;
    }
  }
}

// Of two values that are there, or of one and new weights.
void RandomGraphGenerator::add_matmul() {
  for (int i = 0; i < 20; ++i) {
    Node node{.op = Op::matmul, .args = {pick(), pick()}};
    const Node& a = graph_[node.args[0]];
    if (chance(50) && a.type.shape.size() >= 2 && is_float(a.type.dtype)) {
      const Shape shape{n_, a.type.shape.back()};
      if (num_elements(shape) > kMostElements) continue;
      node.args[1] = add_input(a.type.dtype, shape);
      node.transpose_b = true;
    } else {
      node.transpose_a = chance(20), node.transpose_b = chance(50);
    }
    const DType usual = ir::usual_result(graph_[node.args[0]].type.dtype);
    node.type.dtype = chance(70) ? usual : DType::f32;
    if (try_append(std::move(node))) return;
  }
}

void RandomGraphGenerator::add_lookup() {
  const ValueId operand = pick();
  const Shape shape = graph_[operand].type.shape;
  if (shape.empty()) return;
  const DType integers = chance(50) ? DType::i32 : DType::i64;
  if (chance(60)) {
    const bool has_rows = value(shape[0]) > 0;  // none to look up otherwise
    const ValueId index = add_input(integers, {has_rows && chance(50) ? m_ : shape[0]});
    try_append(Node{.op = Op::take_rows, .args = {operand, index}});
    return;
  }
  const ValueId index = add_input(integers, {shape[0]});
  Node node{.op = Op::put_rows, .args = {operand, index}};
  node.type.shape = shape;
  if (chance(50)) node.type.shape[0] = shape[0] + 3;
  try_append(std::move(node));
}

}  // namespace epifuse
