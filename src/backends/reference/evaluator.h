// Evaluates the rows of a graph that are asked for: demand backwards, values forwards.
#pragma once

#include <vector>

#include "backends/reference/table.h"
#include "ir/graph.h"

namespace epifuse::reference {

// Whether a result is rounded to its dtype: `maybe` where some readers see it unrounded.
enum class Rounding : std::uint8_t { none, maybe, certain };

// What the steps of one evaluation share.
struct Evaluation {
  const ir::Graph& graph;
  const codegen::Bound& bound;
  Numerics numerics;
  bool tf32;                        // as in Options
  int short_step;                   // the same
  bool i8_in_float32;               // the same
  std::vector<Rounding> roundings;  // by ValueId
  std::vector<Table> tables;        // by ValueId
  Table& operator[](ir::ValueId id) { return tables[static_cast<std::size_t>(id)]; }
};

// Where the elements of a view are in its operand, which is in row-major order.
ir::Layout view_map(const Evaluation& evaluation, ir::ValueId view);
// Where a row of a view of this shape starts in the operand.
std::int64_t row_start(const std::vector<std::int64_t>& shape, std::int64_t row,
                       const ir::Layout& map);

// The batch of a matmul operand that batch `batch` of the result reads.
std::int64_t broadcast_batch(const std::vector<std::int64_t>& result, std::int64_t batch,
                             const std::vector<std::int64_t>& operand);

class Evaluator {
 public:
  Evaluator(const ir::Graph& graph, const codegen::Bound& bound, const Options& options);

  void require(ir::ValueId id, std::int64_t row) { evaluation_[id].require(row); }
  void require_all(ir::ValueId id) { evaluation_[id].require_all(); }
  // Computes the required rows of `results` and what they need; the rest is released on the way.
  void run(const std::vector<ir::ValueId>& results);
  const Table& operator[](ir::ValueId id) const {
    return evaluation_.tables[static_cast<std::size_t>(id)];
  }

 private:
  Evaluation evaluation_;
};

// Marks the operand rows that the required rows of `id` are computed from.
void require_operands(Evaluation& evaluation, ir::ValueId id);

// Fill the required rows of `id`; its operands' rows are there.
void evaluate_matmul(Evaluation& evaluation, ir::ValueId id);
void evaluate_reduction(Evaluation& evaluation, ir::ValueId id);
void evaluate_block(Evaluation& evaluation, ir::ValueId id);
void evaluate_join(Evaluation& evaluation, ir::ValueId id);
void evaluate_elementwise(Evaluation& evaluation, ir::ValueId id);
void evaluate_view(Evaluation& evaluation, ir::ValueId id);
void evaluate_scatter(Evaluation& evaluation, ir::ValueId id);

// Rows that are looked up or put: row `row` of a result of shape `shape` has the place of row `row`
// of its operand, but for the first dim, which is `first`.
std::int64_t row_at(const std::vector<std::int64_t>& shape, std::int64_t row, std::int64_t first);
// Number of row `row` along the first dim.
std::int64_t first_index(const std::vector<std::int64_t>& shape, std::int64_t row);

// The rounding that `id` ends with, where it has one.
Interval finish(const Evaluation& evaluation, ir::ValueId id, const Interval& x);

}  // namespace epifuse::reference
