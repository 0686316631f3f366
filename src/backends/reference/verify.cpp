// Compares a program's outputs with the reference, element by element.
#include <fmt/core.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <set>

#include "backends/bind.h"
#include "backends/reference/evaluate.h"
#include "backends/reference/evaluator.h"
#include "base/text.h"

namespace epifuse::reference {
namespace {

// What a row of the value takes to compute: the columns of the widest value behind it, as far as to
// products, and all rows of a block.
std::int64_t elements_behind(const ir::Graph& graph, const Evaluator& evaluator,
                             ir::ValueId result) {
  std::int64_t columns = 1, block_rows = 1;
  std::set<ir::ValueId> left{result};
  while (!left.empty()) {  // the largest first: no node's arguments come behind it
    const ir::ValueId id = *left.rbegin();
    left.erase(id);
    const ir::Node& node = graph[id];
    columns = std::max(columns, evaluator[id].num_cols());
    block_rows = std::max<std::int64_t>(block_rows, node.block_rows);
    if (!ir::is_matmul(node.op)) left.insert(node.args.begin(), node.args.end());
  }
  return columns * block_rows;
}

// All rows when those behind them hold at most `max_elements`, else the first, the last and random
// ones.
std::vector<std::int64_t> pick_rows(const ir::Graph& graph, const Evaluator& evaluator,
                                    ir::ValueId result, const Options& options) {
  const std::int64_t num_rows = evaluator[result].num_rows();
  const std::int64_t fit = options.max_elements / elements_behind(graph, evaluator, result);
  std::set<std::int64_t> rows;
  if (fit >= num_rows) {
    for (std::int64_t row = 0; row < num_rows; ++row) rows.insert(rows.end(), row);
  } else {
    rows = {0, num_rows - 1};
    std::mt19937_64 random(options.seed);
    while (static_cast<std::int64_t>(rows.size()) < fit) {
      rows.insert(static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(num_rows)));
    }
  }
  return {rows.begin(), rows.end()};
}

std::string describe_failure(const std::string& output, const std::vector<std::int64_t>& shape,
                             std::int64_t row, std::int64_t col, double got,
                             const Interval& allowed, double value) {
  std::vector<std::int64_t> index(shape.size());
  if (!shape.empty()) index.back() = col;
  for (std::size_t d = shape.size(); d-- > 1;) {
    index[d - 1] = row % shape[d - 1];
    row /= shape[d - 1];
  }
  return fmt::format("{}[{}]: got {}, expected {} within [{}, {}]", output, fmt::join(index, ", "),
                     number_text(got), number_text(value), number_text(allowed.low + 0.0),
                     number_text(allowed.high));  // -0 + 0 is 0
}

// Compares one output.
class Comparison {
 public:
  Comparison(const ir::Output& output, const Table& reference, const TensorView& result)
      : reference_(reference),
        dtype_(result.dtype),
        results_(result.data, result.dtype, {0, result.shape, result.strides_or_dense()}) {
    verdict_.output = output.name;
    verdict_.empty = result.num_elements() == 0;
  }

  void compare_row(std::int64_t r) {
    const Row reference = reference_.row(r), results = results_.row(r);
    for (std::int64_t col = 0; col < reference_.num_cols(); ++col) {
      const Interval& expected = reference[col];
      compare(r, col, expected, results[col].value);
    }
  }

  Verdict verdict() {
    verdict_.relative_error = error_squares_ > 0 ? std::sqrt(error_squares_ / value_squares_) : 0;
    return verdict_;
  }

 private:
  void compare(std::int64_t row, std::int64_t col, const Interval& expected, double got) {
    // What is stored is rounded to the output's dtype; the error is counted from the unrounded.
    const Interval allowed = round_to(expected, dtype_);
    ++verdict_.checked;
    if (!accepts(allowed, got) && verdict_.failed++ == 0) {
      verdict_.first_failure = describe_failure(verdict_.output, reference_.shape(), row, col, got,
                                                allowed, expected.value);
    }
    verdict_.max_ratio =
        std::max(verdict_.max_ratio, share_of_allowed(allowed, expected.value, got, dtype_));
    const double error = got - expected.value;
    if (!std::isfinite(error)) return;
    verdict_.max_error = std::max(verdict_.max_error, std::abs(error));
    error_squares_ += error * error;
    value_squares_ += expected.value * expected.value;
  }

  const Table& reference_;
  DType dtype_;
  Table results_;
  Verdict verdict_;
  double error_squares_ = 0, value_squares_ = 0;
};

}  // namespace

std::vector<Verdict> verify(const ir::Graph& graph, std::span<const Binding> tensors,
                            const Options& options) {
  const backends::Matched matched =
      backends::match(graph, tensors, DeviceKind::cpu, backends::Outputs::required);
  const codegen::Bound bound = backends::bind_sources(graph, matched);
  Evaluator evaluator(graph, bound, options);
  std::vector<ir::ValueId> results;
  std::vector<std::vector<std::int64_t>> rows;
  for (const ir::Output& output : graph.outputs) {
    results.push_back(output.value);
    rows.push_back(pick_rows(graph, evaluator, output.value, options));
    for (std::int64_t row : rows.back()) evaluator.require(output.value, row);
  }
  evaluator.run(results);
  std::vector<Verdict> verdicts;
  for (std::size_t i = 0; i < results.size(); ++i) {
    Comparison comparison(graph.outputs[i], evaluator[results[i]], matched.outputs[i]->view);
    for (std::int64_t row : rows[i]) comparison.compare_row(row);
    verdicts.push_back(comparison.verdict());
  }
  return verdicts;
}

}  // namespace epifuse::reference
