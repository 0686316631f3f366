// Runs an evaluation: binds memory, spreads demand, and computes values in order.
#include "backends/reference/evaluator.h"

#include <algorithm>
#include <array>
#include <optional>
#include <string>
#include <unordered_set>

#include "backends/rows.h"
#include "base/check.h"
#include "base/parallel.h"

namespace epifuse::reference {
namespace {

constexpr std::int64_t kBlockCols = 4096;  // elements of a row that one thread takes at a time

Table make_table(const ir::Graph& graph, ir::ValueId id, const codegen::Bound& bound) {
  const ir::ValueId root = ir::storage(graph, id);
  const bool is_plain = has_plain_lookup(graph, id) && !lookup(graph, id);
  if (graph[root].op == ir::Op::input && is_plain) {
    const codegen::BoundTensor& tensor = bound[root];
    if (std::optional<ir::Layout> layout = ir::resolve(graph, id, tensor.layout, bound.sizes)) {
      return Table(tensor.data, graph[root].type.dtype, std::move(*layout));
    }
  }
  return Table(ir::eval(graph[id].type.shape, bound.sizes));
}

using Names = std::unordered_set<std::string>;

// How the result of a node is rounded to its dtype (docs/numerics.md).
Rounding rounding(const ir::Node& node, const Options& options, const Names& maybe_rounded,
                  const Names& rounded) {
  if (node.op == ir::Op::cast) return Rounding::certain;
  if (ir::is_source(node.op) || ir::is_view(node.op)) return Rounding::none;
  if (options.numerics == Numerics::exact) return Rounding::certain;
  if (maybe_rounded.contains(node.name)) return Rounding::maybe;
  return rounded.contains(node.name) ? Rounding::certain : Rounding::none;
}

// When each table is last read, so that it can be released then.
std::vector<ir::ValueId> last_uses(const ir::Graph& graph, const std::vector<ir::ValueId>& keep) {
  const auto num_nodes = static_cast<ir::ValueId>(graph.nodes.size());
  std::vector<ir::ValueId> last(graph.nodes.size(), -1);
  for (ir::ValueId id = 0; id < num_nodes; ++id) {
    for (ir::ValueId arg : graph[id].args) last[static_cast<std::size_t>(arg)] = id;
  }
  for (ir::ValueId id : keep) last[static_cast<std::size_t>(id)] = num_nodes;
  return last;
}

void evaluate_node(Evaluation& evaluation, ir::ValueId id) {
  const ir::Node& node = evaluation.graph[id];
  switch (ir::info(node.op).kind) {
    case ir::OpKind::source: {
      const bool constant = node.op == ir::Op::constant;
      const double x =
          constant ? node.value : evaluation.bound.scalars[static_cast<std::size_t>(id)];
      *evaluation[id].cells(0) = exactly(epifuse::round_to(x, DType::f32));
      break;
    }
    case ir::OpKind::matmul: evaluate_matmul(evaluation, id); break;
    case ir::OpKind::view: evaluate_view(evaluation, id); break;
    case ir::OpKind::reduction: evaluate_reduction(evaluation, id); break;
    case ir::OpKind::block: evaluate_block(evaluation, id); break;
    case ir::OpKind::join: evaluate_join(evaluation, id); break;
    case ir::OpKind::scatter: evaluate_scatter(evaluation, id); break;
    default: evaluate_elementwise(evaluation, id); break;
  }
}

void evaluate_elementwise_block(Evaluation& evaluation, ir::ValueId id, std::int64_t row,
                                std::int64_t first_col, std::int64_t end_col) {
  const ir::Node& node = evaluation.graph[id];
  const ir::OpInfo& op = ir::info(node.op);
  Table& result = evaluation[id];
  std::vector<Row> operands;
  std::vector<std::int64_t> steps;
  for (ir::ValueId arg : node.args) {
    const Table& operand = evaluation[arg];
    operands.push_back(operand.row(broadcast_row(result.shape(), row, operand.shape())));
    steps.push_back(operand.num_cols() == 1 ? 0 : 1);
  }
  std::array<Interval, 3> x{};
  Interval* cells = result.cells(row);
  for (std::int64_t col = first_col; col < end_col; ++col) {
    for (std::size_t i = 0; i < operands.size(); ++i) x[i] = operands[i][col * steps[i]];
    const bool is_cast = op.kind == ir::OpKind::cast;
    const Interval y =
        is_cast ? x[0] : apply(op, std::span(x.data(), operands.size()), evaluation.numerics);
    cells[col] = finish(evaluation, id, y);
  }
}

}  // namespace

Interval finish(const Evaluation& evaluation, ir::ValueId id, const Interval& x) {
  const Rounding rounding = evaluation.roundings[static_cast<std::size_t>(id)];
  if (rounding == Rounding::none) return x;
  const Interval rounded = round_to(x, evaluation.graph[id].type.dtype);
  return rounding == Rounding::certain ? rounded : hull(x, rounded, x.value);
}

void evaluate_elementwise(Evaluation& evaluation, ir::ValueId id) {
  Table& result = evaluation[id];
  const std::vector<std::int64_t>& rows = result.required();
  const std::int64_t blocks_per_row = (result.num_cols() + kBlockCols - 1) / kBlockCols;
  const auto num_blocks = static_cast<std::int64_t>(rows.size()) * blocks_per_row;
  parallel_for(num_blocks, [&](std::int64_t i, int) {
    const std::int64_t first = i % blocks_per_row * kBlockCols;
    const std::int64_t end = std::min(first + kBlockCols, result.num_cols());
    evaluate_elementwise_block(evaluation, id, rows[static_cast<std::size_t>(i / blocks_per_row)],
                               first, end);
  });
}

std::int64_t row_at(const std::vector<std::int64_t>& shape, std::int64_t row, std::int64_t first) {
  std::int64_t rows_of_one = 1;
  for (std::size_t d = 1; d + 1 < shape.size(); ++d) rows_of_one *= shape[d];
  return first * rows_of_one + row % rows_of_one;
}

std::int64_t first_index(const std::vector<std::int64_t>& shape, std::int64_t row) {
  for (std::size_t d = 1; d + 1 < shape.size(); ++d) row /= shape[d];
  return row;
}

namespace {

void evaluate_lookup(Evaluation& evaluation, ir::ValueId id) {
  const ir::Node& node = evaluation.graph[id];
  Table& result = evaluation[id];
  const Table& operand = evaluation[node.args[0]];
  const auto rows = backends::looked_up_rows(evaluation.graph, node, evaluation.bound);
  for (std::int64_t row : result.required()) {
    Interval* cells = result.cells(row);
    const bool by_element = result.shape().size() == 1;
    const std::int64_t first = by_element ? 0 : first_index(result.shape(), row);
    for (std::int64_t col = 0; col < result.num_cols(); ++col) {
      const std::int64_t looked_up = rows[static_cast<std::size_t>(by_element ? col : first)];
      cells[col] = by_element ? operand.row(0)[looked_up]
                              : operand.row(row_at(result.shape(), row, looked_up))[col];
    }
  }
}

}  // namespace

void evaluate_scatter(Evaluation& evaluation, ir::ValueId id) {
  const ir::Node& node = evaluation.graph[id];
  Table& result = evaluation[id];
  const Table& operand = evaluation[node.args[0]];
  const auto rows = backends::rows_put(evaluation.graph, node, evaluation.bound);
  for (std::int64_t row : result.required()) {
    const std::int64_t from = rows[static_cast<std::size_t>(first_index(result.shape(), row))];
    Interval* cells = result.cells(row);
    for (std::int64_t col = 0; col < result.num_cols(); ++col) {
      if (from < 0) {
        cells[col] = undefined();
        continue;
      }
      cells[col] = finish(evaluation, id, operand.row(row_at(result.shape(), row, from))[col]);
    }
  }
}

void evaluate_view(Evaluation& evaluation, ir::ValueId id) {
  if (ir::is_lookup(evaluation.graph[id].op)) return evaluate_lookup(evaluation, id);
  Table& result = evaluation[id];
  const Table& operand = evaluation[evaluation.graph[id].args[0]];
  if (operand.num_cols() == 0 || result.num_cols() == 0) return;
  const ir::Layout map = view_map(evaluation, id);
  const std::int64_t step = map.strides.empty() ? 0 : map.strides.back();
  for (std::int64_t row : result.required()) {
    const std::int64_t start = row_start(result.shape(), row, map);
    Interval* cells = result.cells(row);
    for (std::int64_t col = 0; col < result.num_cols(); ++col) {
      const std::int64_t at = start + col * step;
      cells[col] = operand.row(at / operand.num_cols())[at % operand.num_cols()];
    }
  }
}

namespace {

bool any_undefined(const Row& row, std::int64_t num_cols) {
  for (std::int64_t col = 0; col < num_cols; ++col) {
    if (is_undefined(row[col])) return true;
  }
  return false;
}

}  // namespace

void evaluate_join(Evaluation& evaluation, ir::ValueId id) {
  const ir::Node& node = evaluation.graph[id];
  Table& result = evaluation[id];
  const Table& first = evaluation[node.args[0]];
  const Table& second = evaluation[node.args[1]];
  const std::int64_t half = first.num_cols();
  const bool by_turns = node.op == ir::Op::interleave;
  for (std::int64_t row : result.required()) {
    Interval* cells = result.cells(row);
    const Row first_row = first.row(row), second_row = second.row(row);
    if (any_undefined(first_row, half) || any_undefined(second_row, second.num_cols())) {
      std::fill_n(cells, result.num_cols(), undefined());
      continue;
    }
    for (std::int64_t col = 0; col < half; ++col) {
      const std::int64_t at = by_turns ? 2 * col : col;
      cells[at] = finish(evaluation, id, first_row[col]);
      cells[at + (by_turns ? 1 : half)] = finish(evaluation, id, second_row[col]);
    }
  }
}

Evaluator::Evaluator(const ir::Graph& graph, const codegen::Bound& bound, const Options& options)
    : evaluation_{
          graph, bound, options.numerics, options.tf32, options.short_step, options.i8_in_float32,
          {},    {}} {
  const Names maybe_rounded(options.maybe_rounded.begin(), options.maybe_rounded.end());
  const Names rounded(options.rounded.begin(), options.rounded.end());
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    evaluation_.roundings.push_back(rounding(graph.nodes[i], options, maybe_rounded, rounded));
    evaluation_.tables.push_back(make_table(graph, static_cast<ir::ValueId>(i), bound));
  }
}

void Evaluator::run(const std::vector<ir::ValueId>& results) {
  const ir::Graph& graph = evaluation_.graph;
  const auto num_nodes = static_cast<ir::ValueId>(graph.nodes.size());
  for (ir::ValueId id = num_nodes; id-- > 0;) require_operands(evaluation_, id);
  const std::vector<ir::ValueId> last = last_uses(graph, results);
  for (ir::ValueId id = 0; id < num_nodes; ++id) {
    Table& table = evaluation_[id];
    if (table.in_memory() || table.required().empty()) continue;
    table.allocate();
    evaluate_node(evaluation_, id);
    for (ir::ValueId arg : graph[id].args) {
      if (last[static_cast<std::size_t>(arg)] == id) evaluation_[arg].release();
    }
  }
}

}  // namespace epifuse::reference
