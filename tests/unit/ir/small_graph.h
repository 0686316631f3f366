// Graphs built node by node, without the parser.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "ir/graph.h"

namespace epifuse::ir {

struct SmallGraph {
  Graph graph{"g", {}, {}};

  ValueId input(std::string name, DType dtype, Shape shape, std::vector<Dim> strides = {}) {
    return append(graph, {.op = Op::input,
                          .name = std::move(name),
                          .type = {dtype, std::move(shape), std::move(strides)}});
  }
  ValueId scalar(std::string name) {
    return append(graph, {.op = Op::scalar, .name = std::move(name)});
  }
  ValueId constant(double value) { return append(graph, {.op = Op::constant, .value = value}); }
  ValueId apply(Op op, std::vector<ValueId> args) {
    return append(graph, {.op = op, .args = std::move(args)});
  }
  ValueId cast(ValueId x, DType dtype) {
    return append(graph, {.op = Op::cast, .args = {x}, .type = {dtype, {}, {}}});
  }
  ValueId matmul(ValueId a, ValueId b, DType result, bool transpose_a = false,
                 bool transpose_b = false) {
    return append(graph, {.op = Op::matmul,
                          .args = {a, b},
                          .type = {result, {}, {}},
                          .transpose_a = transpose_a,
                          .transpose_b = transpose_b});
  }
  ValueId transpose(ValueId x, std::vector<int> permutation) {
    return append(graph, {.op = Op::transpose, .args = {x}, .permutation = std::move(permutation)});
  }
  ValueId reshape(ValueId x, Shape shape) { return shaped(Op::reshape, x, std::move(shape)); }
  ValueId broadcast(ValueId x, Shape shape) { return shaped(Op::broadcast, x, std::move(shape)); }
  ValueId slice(ValueId x, std::vector<SliceRange> ranges) {
    return append(graph, {.op = Op::slice, .args = {x}, .ranges = std::move(ranges)});
  }

  const TensorType& type(ValueId id) const { return graph[id].type; }

 private:
  ValueId shaped(Op op, ValueId x, Shape shape) {
    return append(graph, {.op = op, .args = {x}, .type = {DType::f32, std::move(shape), {}}});
  }
};

}  // namespace epifuse::ir
