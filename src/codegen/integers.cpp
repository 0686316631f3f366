#include "codegen/integers.h"

#include <fmt/format.h>

#include <limits>

#include "base/check.h"
#include "epifuse/error.h"

namespace epifuse::codegen {
using ir::Op;

BoundTensor bound_integers(const ir::Graph& graph, const ir::Node& node, const Bound& bound) {
  const ir::ValueId index = ir::index_of(node);
  const ir::ValueId root = ir::storage(graph, index);
  const BoundTensor& memory = bound[root];
  auto layout = ir::resolve(graph, index, memory.layout, bound.sizes);
  if (!layout) {
    throw ArgumentError(
        fmt::format("'{}' needs a copy with the strides that '{}' came with: make "
                    "it contiguous",
                    graph[index].name, graph[root].name));
  }
  EPIFUSE_CHECK(layout->shape.size() == 1, "integers that rows go by have one dim");
  return {memory.data, *std::move(layout)};
}

std::int64_t num_named_rows(const ir::Graph& graph, const ir::Node& node, const Bound& bound) {
  const ir::TensorType& type = node.op == Op::put_rows ? node.type : graph[node.args[0]].type;
  return ir::eval({type.shape[0]}, bound.sizes).front();
}

abi::Integers kernel_integers(const ir::Graph& graph, const ir::Node& node, const Bound& bound) {
  const BoundTensor integers = bound_integers(graph, node, bound);
  const DType dtype = graph[ir::index_of(node)].type.dtype;
  const bool names_rows = node.op == Op::take_rows || node.op == Op::put_rows;
  abi::Integers out{};
  out.data = static_cast<const char*>(integers.data) +
             integers.layout.offset * static_cast<std::int64_t>(size_bytes(dtype));
  out.stride = integers.layout.strides[0];
  const std::int64_t num_rows =
      names_rows ? num_named_rows(graph, node, bound) : integers.layout.shape[0];
  if (num_rows > std::numeric_limits<int>::max()) {
    throw ArgumentError(
        fmt::format("{} '{}' expects less than 2^31 rows or groups on a GPU, got {}", name(node.op),
                    node.name, num_rows));
  }
  out.num_rows = static_cast<int>(num_rows);
  out.is_wide = dtype == DType::i64;
  const bool reads_rows = ir::is_lookup(node.op);
  const std::int64_t num_results = ir::eval({node.type.shape[0]}, bound.sizes).front();
  if (reads_rows && out.num_rows == 0 && num_results > 0) {
    throw ArgumentError(fmt::format("{} '{}' expects rows to read, got none for the {} of '{}'",
                                    name(node.op), node.name, num_results,
                                    graph[ir::index_of(node)].name));
  }
  return out;
}

}  // namespace epifuse::codegen
