// Which rows of its operands each op reads.
#include <algorithm>

#include "backends/reference/evaluator.h"
#include "backends/rows.h"
#include "base/check.h"

namespace epifuse::reference {
namespace {

void require_elementwise(Evaluation& evaluation, const ir::Node& node, Table& result) {
  for (ir::ValueId arg : node.args) {
    Table& operand = evaluation[arg];
    if (operand.in_memory()) continue;
    for (std::int64_t row : result.required()) {
      operand.require(broadcast_row(result.shape(), row, operand.shape()));
    }
  }
}

// All rows of the batch that `row` of the result belongs to; of a plain A only the one of `row`.
void require_matmul(Evaluation& evaluation, const ir::Node& node, Table& result) {
  const std::size_t rank = result.shape().size();
  const std::int64_t m = result.shape()[rank - 2];
  for (std::size_t i = 0; i < 2; ++i) {
    Table& operand = evaluation[node.args[i]];
    if (operand.in_memory()) continue;
    const std::int64_t rows_per_batch = operand.shape()[operand.shape().size() - 2];
    for (std::int64_t row : result.required()) {
      const std::int64_t batch = broadcast_batch(result.shape(), row / m, operand.shape());
      if (i == 0 && !node.transpose_a) {
        operand.require(batch * rows_per_batch + row % m);
        continue;
      }
      for (std::int64_t r = 0; r < rows_per_batch; ++r) {
        operand.require(batch * rows_per_batch + r);
      }
    }
  }
}

// All scales of a scaled product.
void require_scales(Evaluation& evaluation, const ir::Node& node) {
  const ir::BlockScales scales = ir::block_scales(evaluation.graph, node);
  for (const ir::ValueId id : {scales.a, scales.b}) {
    if (!evaluation[id].in_memory()) evaluation[id].require_all();
  }
}

// The row of x, and all of the matrix of its group.
void require_grouped_matmul(Evaluation& evaluation, const ir::Node& node, Table& result) {
  Table& x = evaluation[node.args[0]];
  Table& w = evaluation[node.args[1]];
  for (std::int64_t row : result.required()) x.require(row);
  if (w.in_memory()) return;
  const std::int64_t rows_of_matrix = w.shape()[1];
  const auto groups = backends::rows_of_groups(evaluation.graph, node, evaluation.bound);
  const std::vector<std::int64_t>& rows = result.required();
  for (std::size_t g = 0; g < groups.size(); ++g) {
    const auto first = std::lower_bound(rows.begin(), rows.end(), groups[g].first);
    if (first == rows.end() || *first >= groups[g].first + groups[g].count) continue;
    for (std::int64_t r = 0; r < rows_of_matrix; ++r) {
      w.require(static_cast<std::int64_t>(g) * rows_of_matrix + r);
    }
  }
}

void require_scatter(Evaluation& evaluation, const ir::Node& node, Table& result) {
  Table& operand = evaluation[node.args[0]];
  if (operand.in_memory()) return;
  const auto rows = backends::rows_put(evaluation.graph, node, evaluation.bound);
  for (std::int64_t row : result.required()) {
    const std::int64_t from = rows[static_cast<std::size_t>(first_index(result.shape(), row))];
    if (from >= 0) operand.require(row_at(result.shape(), row, from));
  }
}

void require_lookup(Evaluation& evaluation, const ir::Node& node, Table& result) {
  Table& operand = evaluation[node.args[0]];
  if (operand.in_memory()) return;
  if (result.shape().size() == 1) return operand.require(0);
  const auto rows = backends::looked_up_rows(evaluation.graph, node, evaluation.bound);
  for (std::int64_t row : result.required()) {
    const auto first = static_cast<std::size_t>(first_index(result.shape(), row));
    operand.require(row_at(result.shape(), row, rows[first]));
  }
}

// Operands have the rows of the result.
void require_join(Evaluation& evaluation, const ir::Node& node, Table& result) {
  for (ir::ValueId arg : node.args) {
    Table& operand = evaluation[arg];
    if (operand.in_memory()) continue;
    for (std::int64_t row : result.required()) operand.require(row);
  }
}

// Of squares the first row, or all of them.
void require_block(Evaluation& evaluation, const ir::Node& node, Table& result) {
  if (node.block_rows == 1) return require_join(evaluation, node, result);
  Table& operand = evaluation[node.args[0]];
  if (operand.in_memory()) return;
  for (const std::int64_t row : result.required()) {
    if (node.op == ir::Op::block_first) {
      operand.require(row * node.block_rows);
      continue;
    }
    const std::int64_t first = row / node.block_rows * node.block_rows;
    for (std::int64_t r = 0; r < node.block_rows; ++r) operand.require(first + r);
  }
}

void require_reduction(Evaluation& evaluation, const ir::Node& node, Table& result) {
  Table& operand = evaluation[node.args[0]];
  const bool over_row = node.op == ir::Op::row_sum || node.op == ir::Op::row_max;
  const std::int64_t m = operand.shape()[operand.shape().size() - 2];
  for (std::int64_t row : result.required()) {
    if (over_row) {
      operand.require(row);
    } else {
      for (std::int64_t r = 0; r < m; ++r) operand.require(row * m + r);
    }
  }
}

void require_view(Evaluation& evaluation, ir::ValueId id, Table& result) {
  const ir::Node& node = evaluation.graph[id];
  if (ir::is_lookup(node.op)) return require_lookup(evaluation, node, result);
  Table& operand = evaluation[evaluation.graph[id].args[0]];
  if (operand.in_memory() || operand.num_cols() == 0) return;
  const ir::Layout map = view_map(evaluation, id);
  const std::int64_t step = map.strides.empty() ? 0 : map.strides.back();
  for (std::int64_t row : result.required()) {
    const std::int64_t start = row_start(result.shape(), row, map);
    for (std::int64_t col = 0; col < result.num_cols(); ++col) {
      operand.require((start + col * step) / operand.num_cols());
    }
  }
}

}  // namespace

ir::Layout view_map(const Evaluation& evaluation, ir::ValueId view) {
  const ir::Graph& graph = evaluation.graph;
  const auto& from = evaluation.tables[static_cast<std::size_t>(graph[view].args[0])].shape();
  auto map =
      ir::through(graph, view, {0, from, TensorView::dense_strides(from)}, evaluation.bound.sizes);
  EPIFUSE_CHECK(map.has_value(), "dense rows have any shape");
  return *std::move(map);
}

std::int64_t row_start(const std::vector<std::int64_t>& shape, std::int64_t row,
                       const ir::Layout& map) {
  std::int64_t start = map.offset;
  for (std::size_t d = shape.size(); d-- > 1;) {
    start += row % shape[d - 1] * map.strides[d - 1];
    row /= shape[d - 1];
  }
  return start;
}

std::int64_t broadcast_batch(const std::vector<std::int64_t>& result, std::int64_t batch,
                             const std::vector<std::int64_t>& operand) {
  // Batch numbers are the row numbers of a shape whose last two dims count as one.
  return broadcast_row({result.begin(), result.end() - 1}, batch,
                       {operand.begin(), operand.end() - 1});
}

void require_operands(Evaluation& evaluation, ir::ValueId id) {
  const ir::Node& node = evaluation.graph[id];
  Table& result = evaluation[id];
  if (result.in_memory() || result.required().empty()) return;
  switch (ir::info(node.op).kind) {
    case ir::OpKind::source: break;
    case ir::OpKind::matmul:
      if (ir::is_grouped_matmul(node.op)) {
        require_grouped_matmul(evaluation, node, result);
      } else {
        require_matmul(evaluation, node, result);
      }
      if (ir::is_scaled_matmul(node.op)) require_scales(evaluation, node);
      break;
    case ir::OpKind::view: require_view(evaluation, id, result); break;
    case ir::OpKind::reduction: require_reduction(evaluation, node, result); break;
    case ir::OpKind::block: require_block(evaluation, node, result); break;
    case ir::OpKind::join: require_join(evaluation, node, result); break;
    case ir::OpKind::scatter: require_scatter(evaluation, node, result); break;
    default: require_elementwise(evaluation, node, result); break;
  }
}

}  // namespace epifuse::reference
