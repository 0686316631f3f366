// Matrix products in float64, a panel of eight columns at a time.
#include <algorithm>
#include <bit>
#include <cmath>
#include <functional>
#include <limits>
#include <utility>

#include "backends/reference/accumulate.h"
#include "backends/reference/evaluator.h"
#include "backends/rows.h"
#include "base/parallel.h"

namespace epifuse::reference {
namespace {

constexpr std::int64_t kChunk = 512;  // of K: a packed panel of B then stays in the L1 cache

using Visit = std::function<void(std::int64_t row, std::int64_t col, const Interval& element)>;

// The block scales of one matrix of a batch, or, without a table, none.
class Scales {
 public:
  Scales() = default;
  // `rows_each`: how many rows of the operand share one. `batch` -1: all rows are of one matrix.
  Scales(const Table& table, std::int64_t batch, std::int64_t rows_each)
      : table_(&table),
        rows_each_(rows_each),
        num_rows_(batch < 0 ? table.num_rows() : table.shape()[table.shape().size() - 2]),
        first_row_(batch < 0 ? 0 : batch * num_rows_) {}
  bool exist() const { return table_ != nullptr; }
  Interval at(std::int64_t row, std::int64_t k) const {
    return table_->row(first_row_ + row / rows_each_)[k / ir::kScaleBlock];
  }
  bool are_exact() const {
    return all([](const Interval& scale) { return is_exact(scale); });
  }
  // Of those that are finite.
  double largest() const {
    double largest = 0;
    all([&](const Interval& scale) {
      for (const double end : {scale.low, scale.high}) {
        if (std::isfinite(end)) largest = std::max(largest, std::abs(end));
      }
      return true;
    });
    return largest;
  }

 private:
  bool all(const std::function<bool(const Interval&)>& test) const {
    for (std::int64_t row = 0; exist() && row < num_rows_; ++row) {
      const Row scales = table_->row(first_row_ + row);
      for (std::int64_t i = 0; i < table_->num_cols(); ++i) {
        if (!test(scales[i])) return false;
      }
    }
    return true;
  }

  const Table* table_ = nullptr;
  std::int64_t rows_each_ = 1, num_rows_ = 0, first_row_ = 0;
};

// An element and its scale: exact in float64 where both are. What an infinite scale makes of a
// block depends on whether it is applied to elements or to their sum.
Interval scaled(const Interval& x, const Interval& scale) {
  if (must_be_nan(x) || must_be_nan(scale)) return exactly(std::nan(""));
  const double value = x.value * scale.value;
  if (may_be_nan(x) || may_be_nan(scale)) return anything(value);
  if (std::isinf(scale.low) || std::isinf(scale.high)) return anything(value);
  if (is_exact(x) && is_exact(scale)) return limit_to_float32(exactly(value));
  const double ends[] = {x.low * scale.low, x.low * scale.high, x.high * scale.low,
                         x.high * scale.high};
  if (std::ranges::any_of(ends, [](double end) { return std::isnan(end); })) return anything(value);
  return limit_to_float32({std::ranges::min(ends), value, std::ranges::max(ends)});
}

// One matrix of a batch, seen as plain [rows, K] (A) or [K, columns] (B).
class Matrix {
 public:
  Matrix(const Table& table, std::int64_t batch, bool transposed)
      : table_(table), transposed_(transposed) {
    num_rows_ = table.shape()[table.shape().size() - 2];
    first_row_ = batch * num_rows_;
  }
  // All rows of a table as those of one matrix.
  explicit Matrix(const Table& table)
      : table_(table), transposed_(false), num_rows_(table.num_rows()) {}
  void set_scales(const Scales& scales, bool is_b) {
    scales_ = scales;
    is_b_ = is_b;
  }
  const Scales& scales() const { return scales_; }
  std::int64_t num_rows() const { return transposed_ ? table_.num_cols() : num_rows_; }
  std::int64_t num_cols() const { return transposed_ ? num_rows_ : table_.num_cols(); }
  Interval at(std::int64_t row, std::int64_t col) const {
    return with_scale(
        transposed_ ? table_.row(first_row_ + col)[row] : table_.row(first_row_ + row)[col], row,
        col);
  }
  // Calls visit(row, col, element) for a block, along the rows of the table.
  void visit(std::int64_t row0, std::int64_t row1, std::int64_t col0, std::int64_t col1,
             const Visit& visit_element) const {
    const std::int64_t outer0 = transposed_ ? col0 : row0, outer1 = transposed_ ? col1 : row1;
    const std::int64_t inner0 = transposed_ ? row0 : col0, inner1 = transposed_ ? row1 : col1;
    for (std::int64_t outer = outer0; outer < outer1; ++outer) {
      const Row row = table_.row(first_row_ + outer);
      for (std::int64_t inner = inner0; inner < inner1; ++inner) {
        const std::int64_t r = transposed_ ? inner : outer, c = transposed_ ? outer : inner;
        visit_element(r, c, with_scale(row[inner], r, c));
      }
    }
  }

 private:
  Interval with_scale(const Interval& x, std::int64_t row, std::int64_t col) const {
    if (!scales_.exist()) return x;
    return scaled(x, is_b_ ? scales_.at(col, row) : scales_.at(row, col));
  }

  const Table& table_;
  bool transposed_;
  std::int64_t num_rows_ = 0, first_row_ = 0;
  Scales scales_;
  bool is_b_ = false;
};

// How the elements of a matrix may be read before they are multiplied (docs/numerics.md).
enum class Reading : std::uint8_t { as_they_are, tf32, subnormals_as_zero };

// How far a reading may move any point of x. TF32 cuts off or rounds the last 13 mantissa bits: a
// number whose last bits are zero stays.
double moved_by(Reading reading, const Interval& x) {
  constexpr std::uint32_t kLostBits = (1u << 13) - 1;
  constexpr double kSmallestNormal = 0x1p-126;
  const double largest = magnitude_of(x);
  if (reading == Reading::as_they_are || !std::isfinite(largest)) return 0;
  if (largest < kSmallestNormal) return largest;
  if (reading == Reading::subnormals_as_zero) return 0;
  const auto single = static_cast<float>(x.value);
  const bool stays =
      is_exact(x) && single == x.value && (std::bit_cast<std::uint32_t>(single) & kLostBits) == 0;
  return stays ? 0 : 0x1p-10 * largest;
}

// Elements as numbers and radii, of what they may become when they are read.
struct Panel {
  Panel(std::int64_t size, Reading reading_)
      : value(static_cast<std::size_t>(size)),
        radius(static_cast<std::size_t>(size)),
        reading(reading_) {}
  void set(std::int64_t at, const Interval& x) {
    const double moved = moved_by(reading, x);
    value[static_cast<std::size_t>(at)] = x.value;
    radius[static_cast<std::size_t>(at)] = radius_of(x) + moved;
    exact = exact && is_exact(x) && moved == 0;
  }
  std::vector<double> value, radius;
  Reading reading;
  bool exact = true;
};

Reading reading_of(const Evaluation& evaluation, ir::ValueId matmul) {
  switch (evaluation.graph[evaluation.graph[matmul].args[0]].type.dtype) {
    case DType::f32: return evaluation.tf32 ? Reading::tf32 : Reading::as_they_are;
    case DType::bf16: return Reading::subnormals_as_zero;
    default: return Reading::as_they_are;
  }
}

// Products that are added up with few bits before they are added in float32; 0: none.
std::int64_t window_of(const Evaluation& evaluation, ir::ValueId matmul, std::int64_t k) {
  constexpr std::int64_t kPromoted = 128;
  const ir::Node& node = evaluation.graph[matmul];
  const bool is_fp8_product = is_fp8(evaluation.graph[node.args[0]].type.dtype);
  return evaluation.short_step == 0 || !is_fp8_product    ? 0
         : node.promoted || ir::is_scaled_matmul(node.op) ? std::min(k, kPromoted)
                                                          : k;
}

bool adds_integers(const Evaluation& evaluation, ir::ValueId matmul) {
  const ir::Node& node = evaluation.graph[matmul];
  return evaluation.graph[node.args[0]].type.dtype == DType::i8 && !evaluation.i8_in_float32;
}

// The products of some rows of A with all of B, or with `part`, along K.
class Product {
 public:
  Product(Evaluation& evaluation, ir::ValueId id, const Matrix& a, const Matrix& b,
          std::vector<std::int64_t> rows, std::int64_t first_result_row)
      : Product(evaluation, id, a, b, std::move(rows), first_result_row, {0, a.num_cols()}) {}
  Product(Evaluation& evaluation, ir::ValueId id, const Matrix& a, const Matrix& b,
          std::vector<std::int64_t> rows, std::int64_t first_result_row,
          const backends::GroupRows& part)
      : evaluation_(evaluation),
        id_(id),
        a_(a),
        b_(b),
        rows_(std::move(rows)),
        first_result_row_(first_result_row),
        first_k_(part.first),
        k_(part.count),
        reading_(reading_of(evaluation, id)),
        window_(window_of(evaluation, id, k_)),
        are_integers_(adds_integers(evaluation, id)),
        a_panel_(static_cast<std::int64_t>(rows_.size()) * k_, reading_) {
    ir::check_integer_sums(evaluation.graph, evaluation.graph[id], evaluation.bound.sizes);
    if (!a.scales().exist()) return;
    constexpr double kLargest = std::numeric_limits<float>::max();
    scales_are_exact_ = a.scales().are_exact() && b.scales().are_exact();
    scales_overflow_ = a.scales().largest() * b.scales().largest() > kLargest;
  }

  void run() {
    gather_a();
    parallel_for((b_.num_cols() + kLanes - 1) / kLanes,
                 [this](std::int64_t i, int) { run_columns(i * kLanes); });
  }

 private:
  void gather_a() {
    for (std::size_t i = 0; i < rows_.size(); ++i) {
      const auto start = static_cast<std::int64_t>(i) * k_;
      a_.visit(rows_[i], rows_[i] + 1, first_k_, first_k_ + k_,
               [&](std::int64_t, std::int64_t k, const Interval& x) {
                 a_panel_.set(start + k - first_k_, x);
               });
    }
  }

  void run_columns(std::int64_t first_col) {
    const std::int64_t end_col = std::min(first_col + kLanes, b_.num_cols());
    std::vector<Sums> sums(rows_.size());
    std::vector<Spread> spreads(rows_.size(), Spread{.conspires = !scales_are_exact_});
    std::vector<ShortSums> short_sums(rows_.size(), {window_, evaluation_.short_step});
    bool exact = a_panel_.exact;
    for (std::int64_t k0 = 0; k0 < k_; k0 += kChunk) {
      const std::int64_t k1 = std::min(k0 + kChunk, k_);
      Panel b_panel((k1 - k0) * kLanes, reading_);
      b_.visit(first_k_ + k0, first_k_ + k1, first_col, end_col,
               [&](std::int64_t k, std::int64_t col, const Interval& x) {
                 b_panel.set((k - first_k_ - k0) * kLanes + col - first_col, x);
               });
      exact = exact && b_panel.exact;
      for (std::size_t i = 0; i < rows_.size(); ++i) {
        const std::size_t at = i * static_cast<std::size_t>(k_) + static_cast<std::size_t>(k0);
        const double* a = a_panel_.value.data() + at;
        accumulate(a, b_panel.value.data(), k1 - k0, sums[i]);
        if (window_ > 0) accumulate_short(a, b_panel.value.data(), k1 - k0, short_sums[i]);
        if (!a_panel_.exact || !b_panel.exact) {
          accumulate_spread(a, a_panel_.radius.data() + at, b_panel.value.data(),
                            b_panel.radius.data(), k1 - k0, spreads[i]);
        }
      }
    }
    Columns columns(static_cast<std::size_t>(end_col - first_col));
    for (std::size_t i = 0; i < rows_.size(); ++i) {
      store(i, first_col, columns, sums[i], short_sums[i], exact ? nullptr : &spreads[i]);
    }
  }

  using Elements = std::vector<Interval>;
  using Columns = std::vector<Elements>;  // of B, each empty until it is asked for

  void store(std::size_t i, std::int64_t first_col, Columns& columns, const Sums& sums,
             const ShortSums& short_sums, const Spread* spread) {
    Interval* cells = evaluation_[id_].cells(first_result_row_ + rows_[i]);
    Elements row;
    for (std::size_t lane = 0; lane < columns.size(); ++lane) {
      const std::int64_t col = first_col + static_cast<std::int64_t>(lane);
      double more = window_ > 0 ? short_sum_error(short_sums, lane) : 0;
      if (a_.scales().exist()) more += scaling_error(sums, lane, k_);
      const Interval y = are_integers_ ? integer_sum(sums, lane)
                         : is_bounded(sums, spread, lane)
                             ? bounded_sum(sums, spread, lane, k_, more)
                             : unbounded_sum(i, row, col, columns[lane]);
      cells[col] = finish(evaluation_, id_, scales_overflow_ ? anything(y.value) : y);
    }
  }

  // `row` and `column` are filled by the first sum that takes them.
  Interval unbounded_sum(std::size_t i, Elements& row, std::int64_t col, Elements& column) const {
    for (std::int64_t k = std::ssize(row); k < k_; ++k)
      row.push_back(a_.at(rows_[i], first_k_ + k));
    for (std::int64_t k = std::ssize(column); k < k_; ++k)
      column.push_back(b_.at(first_k_ + k, col));
    UnboundedSum sum;
    for (std::size_t k = 0; k < row.size(); ++k) {
      const double largest = magnitude_of(row[k]) * magnitude_of(column[k]);
      if (std::isfinite(largest)) {
        sum.add_finite(row[k].value * column[k].value, largest);
      } else {
        const Interval factors[] = {row[k], column[k]};
        sum.add(apply(ir::info(ir::Op::mul), factors, evaluation_.numerics));
      }
    }
    return sum.result();
  }

  Evaluation& evaluation_;
  ir::ValueId id_;
  const Matrix &a_, &b_;
  const std::vector<std::int64_t> rows_;
  std::int64_t first_result_row_, first_k_, k_;
  Reading reading_;
  std::int64_t window_;
  bool are_integers_;
  Panel a_panel_;
  bool scales_are_exact_ = true, scales_overflow_ = false;
};

// An operand of a product and which of its batches that is; -1: all are one.
struct OfBatch {
  Matrix& matrix;
  std::int64_t batch;
};

void set_scales(Evaluation& evaluation, const ir::Node& node, OfBatch a, OfBatch b) {
  if (!ir::is_scaled_matmul(node.op)) return;
  ir::check_block_scales(evaluation.graph, node, evaluation.bound.sizes);
  const ir::BlockScales scales = ir::block_scales(evaluation.graph, node);
  a.matrix.set_scales(Scales(evaluation[scales.a], a.batch, 1), false);
  b.matrix.set_scales(Scales(evaluation[scales.b], b.batch, scales.b_by_row ? 1 : ir::kScaleBlock),
                      true);
}

void evaluate_grouped_matmul(Evaluation& evaluation, ir::ValueId id) {
  const ir::Node& node = evaluation.graph[id];
  Table& result = evaluation[id];
  const Table &x = evaluation[node.args[0]], &w = evaluation[node.args[1]];
  const std::vector<std::int64_t>& rows = result.required();
  for (std::int64_t row : rows) {
    std::fill_n(result.cells(row), result.num_cols(), undefined());
  }
  const auto groups = backends::rows_of_groups(evaluation.graph, node, evaluation.bound);
  for (std::size_t g = 0; g < groups.size(); ++g) {
    const auto first = std::lower_bound(rows.begin(), rows.end(), groups[g].first);
    const auto end = std::lower_bound(first, rows.end(), groups[g].first + groups[g].count);
    if (first == end) continue;
    const auto group = static_cast<std::int64_t>(g);
    Matrix all_rows(x), matrix(w, group, node.transpose_b);
    set_scales(evaluation, node, {all_rows, -1}, {matrix, group});
    Product(evaluation, id, all_rows, matrix, {first, end}, 0).run();
  }
}

}  // namespace

void evaluate_matmul(Evaluation& evaluation, ir::ValueId id) {
  const ir::Node& node = evaluation.graph[id];
  if (ir::is_grouped_matmul(node.op)) return evaluate_grouped_matmul(evaluation, id);
  Table& result = evaluation[id];
  const Table &a = evaluation[node.args[0]], &b = evaluation[node.args[1]];
  const std::int64_t m = result.shape()[result.shape().size() - 2];
  const std::vector<std::int64_t>& rows = result.required();
  std::vector<backends::GroupRows> groups;
  if (node.op == ir::Op::k_grouped_matmul) {
    groups = backends::rows_of_groups(evaluation.graph, node, evaluation.bound);
  }
  for (std::size_t first = 0; first < rows.size();) {
    const std::int64_t batch = rows[first] / m;
    std::vector<std::int64_t> batch_rows;
    std::size_t end = first;
    for (; end < rows.size() && rows[end] / m == batch; ++end) {
      batch_rows.push_back(rows[end] % m);
    }
    const std::int64_t batch_a = broadcast_batch(result.shape(), batch, a.shape());
    const std::int64_t batch_b = broadcast_batch(result.shape(), batch, b.shape());
    Matrix matrix_a(a, batch_a, node.transpose_a), matrix_b(b, batch_b, node.transpose_b);
    set_scales(evaluation, node, {matrix_a, batch_a}, {matrix_b, batch_b});
    const backends::GroupRows all{0, matrix_a.num_cols()};
    Product(evaluation, id, matrix_a, matrix_b, batch_rows, batch * m,
            groups.empty() ? all : groups[static_cast<std::size_t>(batch)])
        .run();
    first = end;
  }
}

}  // namespace epifuse::reference
