// Row and column sums and maxima.
#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>

#include "backends/reference/accumulate.h"
#include "backends/reference/evaluator.h"
#include "base/parallel.h"

namespace epifuse::reference {
namespace {

constexpr std::int64_t kChunk = 512;  // terms that are gathered at a time

// Term `k` of the reduction of result `lane`.
using Terms = std::function<Interval(std::int64_t k, std::int64_t lane)>;

Interval unbounded_sum(const Terms& terms, std::int64_t lane, std::int64_t count) {
  UnboundedSum sum;
  for (std::int64_t k = 0; k < count; ++k) sum.add(terms(k, lane));
  return sum.result();
}

// Sums of `num_lanes` <= kLanes columns of `count` terms each.
void sum_lanes(const Terms& terms, std::int64_t count, std::int64_t num_lanes, Interval* results) {
  Sums sums;
  Spread spread;
  std::vector<double> ones(static_cast<std::size_t>(std::min(count, kChunk)), 1.0);
  std::vector<double> zeros(ones.size(), 0.0);
  std::vector<double> value(ones.size() * kLanes, 0.0), radius(value.size(), 0.0);
  for (std::int64_t k0 = 0; k0 < count; k0 += kChunk) {
    const std::int64_t chunk = std::min(kChunk, count - k0);
    for (std::int64_t k = 0; k < chunk; ++k) {
      for (std::int64_t lane = 0; lane < num_lanes; ++lane) {
        const Interval x = terms(k0 + k, lane);
        const auto at = static_cast<std::size_t>(k * kLanes + lane);
        value[at] = x.value;
        radius[at] = radius_of(x);
      }
    }
    accumulate(ones.data(), value.data(), chunk, sums);
    accumulate_spread(ones.data(), zeros.data(), value.data(), radius.data(), chunk, spread);
  }
  for (std::int64_t lane = 0; lane < num_lanes; ++lane) {
    const auto j = static_cast<std::size_t>(lane);
    results[lane] = is_bounded(sums, &spread, j) ? bounded_sum(sums, &spread, j, count)
                                                 : unbounded_sum(terms, lane, count);
  }
}

Interval greatest(const Terms& terms, std::int64_t lane, std::int64_t count) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  Interval result = exactly(-kInfinity);
  bool uncertain = false;
  for (std::int64_t k = 0; k < count; ++k) {
    const Interval x = terms(k, lane);
    if (must_be_nan(x)) return x;
    uncertain = uncertain || may_be_nan(x);
    if (std::isnan(x.value) || x.value > result.value) result.value = x.value;
    result.low = std::max(result.low, x.low);
    result.high = std::max(result.high, x.high);
  }
  return uncertain ? anything(result.value) : result;
}

void reduce_lanes(ir::Op op, const Terms& terms, std::int64_t count, std::int64_t num_lanes,
                  Interval* results) {
  if (op == ir::Op::row_sum || op == ir::Op::col_sum) {
    sum_lanes(terms, count, num_lanes, results);
    return;
  }
  for (std::int64_t lane = 0; lane < num_lanes; ++lane) {
    results[lane] = greatest(terms, lane, count);
  }
}

void reduce_rows(Evaluation& evaluation, ir::ValueId id, const Table& operand) {
  Table& result = evaluation[id];
  const std::vector<std::int64_t>& rows = result.required();
  const auto num_rows = static_cast<std::int64_t>(rows.size());
  parallel_for((num_rows + kLanes - 1) / kLanes, [&](std::int64_t i, int) {
    const std::int64_t first = i * kLanes, num_lanes = std::min(kLanes, num_rows - first);
    std::vector<Row> lanes;
    for (std::int64_t lane = 0; lane < num_lanes; ++lane) {
      lanes.push_back(operand.row(rows[static_cast<std::size_t>(first + lane)]));
    }
    const Terms terms = [&](std::int64_t k, std::int64_t lane) {
      return lanes[static_cast<std::size_t>(lane)][k];
    };
    Interval results[kLanes];
    reduce_lanes(evaluation.graph[id].op, terms, operand.num_cols(), num_lanes, results);
    for (std::int64_t lane = 0; lane < num_lanes; ++lane) {
      *result.cells(rows[static_cast<std::size_t>(first + lane)]) =
          finish(evaluation, id, results[lane]);
    }
  });
}

void reduce_columns(Evaluation& evaluation, ir::ValueId id, const Table& operand) {
  Table& result = evaluation[id];
  const std::int64_t count = operand.shape()[operand.shape().size() - 2];
  for (std::int64_t batch : result.required()) {
    std::vector<Row> rows;
    for (std::int64_t k = 0; k < count; ++k) rows.push_back(operand.row(batch * count + k));
    Interval* cells = result.cells(batch);
    parallel_for((result.num_cols() + kLanes - 1) / kLanes, [&](std::int64_t i, int) {
      const std::int64_t first = i * kLanes;
      const std::int64_t num_lanes = std::min(kLanes, result.num_cols() - first);
      const Terms terms = [&](std::int64_t k, std::int64_t lane) {
        return rows[static_cast<std::size_t>(k)][first + lane];
      };
      reduce_lanes(evaluation.graph[id].op, terms, count, num_lanes, cells + first);
      for (std::int64_t lane = 0; lane < num_lanes; ++lane) {
        cells[first + lane] = finish(evaluation, id, cells[first + lane]);
      }
    });
  }
}

// The largest of a block that begins at `column` of the first row.
Interval greatest_of_block(const std::vector<Row>& rows, std::int64_t column, std::int64_t count) {
  const auto is_missing = [&](const Row& row) { return is_undefined(row[column]); };
  if (std::ranges::any_of(rows, is_missing)) return undefined();  // rows of no group
  const Terms terms = [&](std::int64_t k, std::int64_t) {
    return rows[static_cast<std::size_t>(k / count)][column + k % count];
  };
  return greatest(terms, 0, std::ssize(rows) * count);
}

// Rows that share their blocks lie one behind the other among those that are required.
void fill_maxima(Evaluation& evaluation, ir::ValueId id, const Table& operand) {
  const std::int64_t height = evaluation.graph[id].block_rows;
  Table& result = evaluation[id];
  const std::vector<std::int64_t>& required = result.required();
  std::vector<std::int64_t> tops;
  for (const std::int64_t row : required) {
    if (tops.empty() || tops.back() + height <= row) tops.push_back(row / height * height);
  }
  parallel_for(std::ssize(tops), [&](std::int64_t i, int) {
    const std::int64_t top = tops[static_cast<std::size_t>(i)];
    const auto first = std::ranges::lower_bound(required, top);
    const auto end = std::ranges::lower_bound(required, top + height);
    std::vector<Row> rows;
    for (std::int64_t row = top; row < top + height; ++row) rows.push_back(operand.row(row));
    for (std::int64_t column = 0; column < operand.num_cols(); column += ir::kBlockColumns) {
      const std::int64_t count =
          std::min<std::int64_t>(ir::kBlockColumns, operand.num_cols() - column);
      const Interval most = greatest_of_block(rows, column, count);
      const Interval cell = is_undefined(most) ? most : finish(evaluation, id, most);
      for (auto row = first; row != end; ++row) {
        std::fill_n(result.cells(*row) + column, count, cell);
      }
    }
  });
}

}  // namespace

void evaluate_block(Evaluation& evaluation, ir::ValueId id) {
  const ir::Node& node = evaluation.graph[id];
  const Table& operand = evaluation[node.args[0]];
  Table& result = evaluation[id];
  const std::vector<std::int64_t>& rows = result.required();
  if (node.op == ir::Op::block_max) return fill_maxima(evaluation, id, operand);
  parallel_for(std::ssize(rows), [&](std::int64_t i, int) {
    const std::int64_t row = rows[static_cast<std::size_t>(i)];
    const Row from = operand.row(row * node.block_rows);
    Interval* cells = result.cells(row);
    for (std::int64_t first = 0; first < operand.num_cols(); first += ir::kBlockColumns) {
      *cells++ = finish(evaluation, id, from[first]);
    }
  });
}

void evaluate_reduction(Evaluation& evaluation, ir::ValueId id) {
  const ir::Node& node = evaluation.graph[id];
  const Table& operand = evaluation[node.args[0]];
  if (node.op == ir::Op::row_sum || node.op == ir::Op::row_max) {
    reduce_rows(evaluation, id, operand);
  } else {
    reduce_columns(evaluation, id, operand);
  }
}

}  // namespace epifuse::reference
