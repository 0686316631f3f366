// Resolves, and packs where needed, the operands of a matrix product.
#include "backends/cpu/gemm_operands.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "backends/cpu/pack_blocks.h"
#include "backends/cpu/threads.h"
#include "backends/rows.h"
#include "base/check.h"

namespace epifuse::cpu {
namespace {

// The operand with its last two dims swapped when `swap`.
codegen::BoundTensor oriented(codegen::BoundTensor tensor, bool swap) {
  const std::size_t rank = tensor.layout.shape.size();
  EPIFUSE_CHECK(rank >= 2, "an operand of matmul has less than two dims");
  if (swap) {
    std::swap(tensor.layout.shape[rank - 1], tensor.layout.shape[rank - 2]);
    std::swap(tensor.layout.strides[rank - 1], tensor.layout.strides[rank - 2]);
  }
  return tensor;
}

bool repeats_over_batches(const Operand& operand) {
  return std::all_of(operand.row_strides.begin(), operand.row_strides.end() - 1,
                     [](std::int64_t stride) { return stride == 0; });
}

// Offset of the first row of each batch.
std::vector<std::int64_t> offsets_of_batches(const Grid& grid, const Operand& operand,
                                             std::int64_t num_batches, std::int64_t rows) {
  std::vector<std::int64_t> offsets(static_cast<std::size_t>(num_batches));
  for (std::size_t i = 0; i < offsets.size(); ++i) {
    row_offsets(grid, operand, static_cast<std::int64_t>(i) * rows, std::span(&offsets[i], 1));
  }
  return offsets;
}

// oneDNN makes a primitive for each number of rows, and groups have another size each time: a few
// numbers serve all.
std::int64_t padded_rows(std::int64_t count) {
  constexpr std::int64_t kExact = 8, kSmall = 64, kMedium = 256;
  const std::int64_t unit = count <= kExact ? 1 : count <= kSmall ? 8 : count <= kMedium ? 32 : 64;
  return (count + unit - 1) / unit * unit;
}

// Rows that pay for packing a panel of B, and those that pay for blocks where it needs no packing.
constexpr std::int64_t kFewRows = 64, kManyRows = 384;

bool is_gated(const GemmProblem& problem) { return problem.b.size() > 1; }

bool has_contiguous_rows(const GemmProblem& problem, const Operand& b) {
  return b.column_stride == 1 || problem.k == 1;
}

bool has_dense_rows(const GemmProblem& problem, const Operand& b, DType compute) {
  return b.dtype == compute && has_contiguous_rows(problem, b) &&
         padded_k(compute, problem.k) == problem.k &&
         (b.row_strides.back() == problem.k || problem.n == 1);
}

// The operand [.., n, k] of each product.
std::vector<codegen::BoundTensor> tensors_of_b(const plan::GemmDesc& gemm,
                                               const codegen::Bound& bound) {
  const codegen::BoundTensor b = oriented(bound[gemm.b.value], !gemm.b.transposed);
  if (gemm.gating == plan::Gating::none) return {b};
  if (gemm.gating == plan::Gating::separate) {
    const plan::Operand& second = gemm.second_b;
    return {b, oriented(bound[second.value], !second.transposed)};
  }
  const std::size_t n = b.layout.shape.size() - 2;
  const auto half = [&](bool is_second) {
    codegen::BoundTensor part = b;
    part.layout.shape[n] /= 2;
    const auto piece =
        ir::piece(gemm.halves(), is_second, part.layout.shape[n], b.layout.strides[n]);
    part.layout.offset += piece.offset;
    part.layout.strides[n] = piece.stride;
    return part;
  };
  return {half(false), half(true)};
}

}  // namespace

GemmProblem make_problem(const plan::Plan& plan, const plan::GemmDesc& gemm,
                         const codegen::Bound& bound, bool keeps_batches) {
  GemmProblem problem;
  problem.shape = ir::eval(space(plan.graph, gemm), bound.sizes);
  const codegen::BoundTensor a = oriented(bound[gemm.a.value], gemm.a.transposed);
  const std::size_t rank = problem.shape.size();
  problem.m = problem.shape[rank - 2];
  problem.n = problem.shape[rank - 1];
  problem.k = a.layout.shape.back();
  std::vector<std::int64_t> a_shape = problem.shape, b_shape = problem.shape;
  a_shape[rank - 1] = b_shape[rank - 1] = problem.k;
  b_shape[rank - 2] = problem.n;
  problem.a = make_operand(a, gemm.a.dtype, a_shape);
  for (const codegen::BoundTensor& b : tensors_of_b(gemm, bound)) {
    problem.b.push_back(make_operand(b, gemm.b.dtype, b_shape));
  }
  problem.a_grid = make_grid(a_shape);
  problem.b_grid = make_grid(b_shape);
  problem.num_batches = problem.a_grid.num_batches;
  problem.merged =
      !keeps_batches && std::all_of(problem.b.begin(), problem.b.end(), repeats_over_batches);
  if (problem.merged) problem.m *= std::exchange(problem.num_batches, 1);
  problem.num_rows = problem.m;
  return problem;
}

GemmProblem part_of_k(const GemmProblem& problem, std::int64_t batch, std::int64_t first,
                      std::int64_t count) {
  GemmProblem part = problem;
  part.shape = {problem.m, problem.n};
  part.num_batches = 1;
  part.first_row = batch * problem.m;
  part.k = count;
  part.a_grid = make_grid({problem.m, count});
  part.b_grid = make_grid({problem.n, count});
  const auto cut = [&](Operand& operand) {
    const std::vector<std::int64_t>& strides = operand.row_strides;
    operand.data = operand.at(batch * strides.front() + first * operand.column_stride);
    operand.row_strides = {strides.back()};
  };
  cut(part.a);
  for (Operand& each : part.b) cut(each);
  return part;
}

GroupedProblem make_grouped_problem(const plan::Plan& plan, const plan::GemmDesc& gemm,
                                    const codegen::Bound& bound) {
  GroupedProblem problem;
  problem.shape = ir::eval(space(plan.graph, gemm), bound.sizes);
  const codegen::BoundTensor& a = bound[gemm.a.value];
  problem.n = problem.shape.back();
  problem.k = a.layout.shape.back();
  problem.a = make_operand(a, gemm.a.dtype, a.layout.shape);
  if (gemm.a.lookup >= 0) {
    look_up(problem.a, 0, a.layout.strides[0],
            backends::looked_up_rows(plan.graph, plan.graph[gemm.a.lookup], bound));
  }
  for (const codegen::BoundTensor& b : tensors_of_b(gemm, bound)) {
    problem.b.push_back(make_operand(b, gemm.b.dtype, b.layout.shape));
  }
  return problem;
}

GemmProblem GroupedProblem::group(std::int64_t group, std::int64_t first,
                                  std::int64_t count) const {
  GemmProblem problem;
  problem.shape = {count, n};
  problem.first_row = first;
  problem.m = padded_rows(count);
  problem.num_rows = count;
  problem.n = n;
  problem.k = k;
  problem.a_grid = make_grid({count, k});
  problem.b_grid = make_grid({n, k});
  problem.a = a;
  problem.a.row_strides = {a.row_strides.back()};
  if (a.rows) {
    const auto rows = a.rows->begin() + first;
    problem.a.rows = std::make_shared<const std::vector<std::int64_t>>(rows, rows + count);
  } else {
    const std::int64_t batch = shape.size() == 3 ? group : 0;
    const std::int64_t row = shape.size() == 3 ? first - group * shape[1] : first;
    problem.a.data = a.at(batch * a.row_strides.front() + row * a.row_strides.back());
  }
  for (const Operand& each : b) {
    problem.b.push_back(each);
    problem.b.back().data = each.at(group * each.row_strides.front());
    problem.b.back().row_strides = {each.row_strides.back()};
  }
  return problem;
}

bool has_dense_rows(const GemmProblem& problem, DType compute) {
  return std::all_of(problem.b.begin(), problem.b.end(), [&](const Operand& b) {
    if (is_gated(problem)) return b.dtype == compute && has_contiguous_rows(problem, b);
    return has_dense_rows(problem, b, compute);
  });
}

RowsOfA::RowsOfA(const GemmProblem& problem, DType compute, BufferPool& pool)
    : compute_(compute),
      k_(problem.k),
      padded_k_(padded_k(compute, k_)),
      grid_(problem.a_grid),
      a_(problem.a) {
  const bool is_shared = !problem.merged && repeats_over_batches(problem.a);
  if (problem.merged) {
    Operand* const operand = &a_;
    coalesce_rows(grid_, std::span(&operand, 1));
  }
  if (is_dense(problem)) {
    data_ = a_.data;
    batch_offsets_ = offsets_of_batches(grid_, a_, problem.num_batches, problem.m);
    return;
  }
  for (std::int64_t batch = 0; batch < problem.num_batches; ++batch) {
    batch_offsets_.push_back(is_shared ? 0 : batch * problem.m * padded_k_);
  }
  std::int64_t num_rows = problem.m * (is_shared ? 1 : problem.num_batches);
  packed_ = pool.borrow(static_cast<std::size_t>(num_rows * padded_k_) * size_bytes(compute_));
  data_ = reinterpret_cast<const char*>(packed_.data());
  if (problem.num_rows != problem.m) {
    const std::int64_t row_bytes = padded_k_ * static_cast<std::int64_t>(size_bytes(compute_));
    auto* const padding = reinterpret_cast<char*>(packed_.data()) + problem.num_rows * row_bytes;
    std::memset(padding, 0, static_cast<std::size_t>((num_rows - problem.num_rows) * row_bytes));
    num_rows = problem.num_rows;
  }
  if (num_rows * k_ > 0) pack_all(num_rows);
}

const char* RowsOfA::at(std::int64_t batch, std::int64_t row) const {
  const std::int64_t offset = batch_offsets_[static_cast<std::size_t>(batch)] + row * padded_k_;
  return data_ + offset * static_cast<std::int64_t>(size_bytes(compute_));
}

bool RowsOfA::is_dense(const GemmProblem& problem) const {
  if (a_.rows || problem.num_rows != problem.m || padded_k_ != k_) return false;
  if (a_.dtype != compute_ || (a_.column_stride != 1 && k_ != 1)) return false;
  if (problem.m == 1 || grid_.row_dims.empty()) return true;
  return (!problem.merged || grid_.row_dims.size() == 1) && a_.row_strides.back() == k_;
}

void RowsOfA::pack_all(std::int64_t num_rows) {
  constexpr std::int64_t kRows = 64;  // of a unit
  // Rows of the innermost dim are one stride apart.
  const std::int64_t run = grid_.row_dims.empty() || a_.rows ? 1 : grid_.row_dims.back();
  const std::int64_t row_stride = grid_.row_dims.empty() ? 0 : a_.row_strides.back();
  const std::int64_t units_per_run = (run + kRows - 1) / kRows;
  const double nanoseconds = 0.2 * static_cast<double>(num_rows) * static_cast<double>(k_);
  auto* out = reinterpret_cast<char*>(packed_.data());
  const std::int64_t row_bytes = padded_k_ * static_cast<std::int64_t>(size_bytes(compute_));
  run_units(num_rows / run * units_per_run, workers_for(nanoseconds), [&](std::int64_t unit, int) {
    const std::int64_t row_in_run = unit % units_per_run * kRows;
    const std::int64_t row = unit / units_per_run * run + row_in_run;
    std::int64_t offset = 0;
    row_offsets(grid_, a_, row, std::span(&offset, 1));
    const std::int64_t count = std::min(kRows, run - row_in_run);
    const Matrix rows{a_.at(offset), a_.dtype, count, k_, row_stride, a_.column_stride};
    pack(rows, compute_, out + row * row_bytes, padded_k_);
  });
}

BlocksOfA::BlocksOfA(const GemmProblem& problem, DType compute, const RowsOfA& rows,
                     std::int64_t rows_per_block, BufferPool& pool) {
  if (problem.num_batches == 0) return;
  const std::int64_t k = padded_k(compute, problem.k);
  const std::int64_t num_blocks = (problem.m + rows_per_block - 1) / rows_per_block;
  const bool is_shared = rows.at(0, 0) == rows.at(problem.num_batches - 1, 0);
  const std::int64_t num_batches = is_shared ? 1 : problem.num_batches;
  block_bytes_ = static_cast<std::int64_t>(bytes_of_blocks(compute, rows_per_block, k));
  batch_bytes_ = is_shared ? 0 : num_blocks * block_bytes_;
  packed_ = pool.borrow(static_cast<std::size_t>(num_batches * num_blocks * block_bytes_));
  auto* const packed = reinterpret_cast<char*>(packed_.data());
  data_ = packed;
  const std::int64_t groups_per_block = (rows_per_block + kBlockWidth - 1) / kBlockWidth;
  const std::int64_t num_units = num_batches * num_blocks * groups_per_block;
  const std::int64_t group_bytes = block_bytes_ / groups_per_block;
  const double nanoseconds = 0.05 * static_cast<double>(num_units * group_bytes);
  run_units(num_units, workers_for(nanoseconds), [&](std::int64_t unit, int) {
    const std::int64_t first = unit / groups_per_block % num_blocks * rows_per_block;
    const std::int64_t rows_of_block = std::min(rows_per_block, problem.m - first);
    const std::int64_t row = unit % groups_per_block * kBlockWidth;
    if (row >= rows_of_block) return;
    const char* data = rows.at(unit / groups_per_block / num_blocks, first + row);
    const Matrix group{data, compute, std::min(kBlockWidth, rows_of_block - row), k, k, 1};
    pack_blocks(group, compute, block_width(rows_of_block), packed + unit * group_bytes);
  });
}

PanelsOfB::PanelsOfB(const GemmProblem& problem, std::size_t which, DType compute,
                     bool reads_blocks)
    : compute_(compute),
      dtype_(problem.b[which].dtype),
      k_(problem.k),
      padded_k_(padded_k(compute, k_)),
      n_(problem.n),
      column_stride_(problem.n == 1 ? problem.k : problem.b[which].row_strides.back()),
      k_stride_(problem.k == 1 ? 1 : problem.b[which].column_stride),
      batch_offsets_(
          offsets_of_batches(problem.b_grid, problem.b[which], problem.num_batches, problem.n)),
      data_(problem.b[which].data),
      way_(choose(problem, problem.b[which], reads_blocks)) {}

// oneDNN's fast kernels want panels whose rows touch each other, which a panel of K-major weights
// is; they copy it into blocks, piece by piece. Packing blocks pays when more than one tile of rows
// uses them, and while they leave room in the cache. Other panels are packed, unless there are too
// few rows to pay for it.
PanelsOfB::Way PanelsOfB::choose(const GemmProblem& problem, const Operand& b,
                                 bool reads_blocks) const {
  if (is_gated(problem)) return choose_for_gate(problem, b, reads_blocks);
  const bool is_k_major = k_stride_ == 1 && column_stride_ >= k_;
  const bool is_n_major = column_stride_ == 1 && k_stride_ >= n_;
  const bool is_dense = has_dense_rows(problem, b, compute_);
  const bool fits = kBlockWidth * k_ <= 2 * elements_of_panel();
  if (reads_blocks && fits && problem.m > (is_dense ? kManyRows : kFewRows)) return Way::blocks;
  if (is_dense) return Way::direct;
  const bool is_readable = dtype_ == compute_ && padded_k_ == k_ && (is_k_major || is_n_major);
  if (is_readable && problem.m <= kFewRows) return Way::direct;
  return column_stride_ == 1 ? Way::n_major : Way::k_major;
}

// The same matrix for oneDNN wherever the columns of the two products lie, so that its sums have
// the same bits: K-major ones as dense rows, others as dense columns.
PanelsOfB::Way PanelsOfB::choose_for_gate(const GemmProblem& problem, const Operand& b,
                                          bool reads_blocks) const {
  const bool is_k_major = k_stride_ == 1;
  const bool fits = kBlockWidth * k_ <= 2 * elements_of_panel();
  if (reads_blocks && fits && problem.m > (is_k_major ? kManyRows : kFewRows)) return Way::blocks;
  if (!is_k_major) return Way::n_major;
  return has_dense_rows(problem, b, compute_) ? Way::direct : Way::k_major;
}

// Of a packed panel that stays in the second cache beside rows of a.
std::int64_t PanelsOfB::elements_of_panel() const {
  constexpr std::int64_t kBytes = 512 << 10;
  return kBytes / static_cast<std::int64_t>(size_bytes(compute_));
}

MatrixType PanelsOfB::type(std::int64_t num_columns) const {
  MatrixType type{compute_, {padded_k_, num_columns}, {k_stride_, column_stride_}};
  if (way_ == Way::k_major) type.strides = {1, padded_k_};
  if (way_ == Way::n_major) type.strides = {num_columns, 1};
  if (way_ == Way::blocks) {
    type.strides.clear();
    type.block_width = block_width(num_columns);
  }
  return type;
}

std::size_t PanelsOfB::scratch_bytes(std::int64_t num_columns) const {
  if (way_ == Way::blocks) return bytes_of_blocks(compute_, num_columns, k_);
  return packs() ? static_cast<std::size_t>(num_columns * padded_k_) * size_bytes(compute_) : 0;
}

Matrix PanelsOfB::panel(std::int64_t batch, std::int64_t first_column,
                        std::int64_t num_columns) const {
  const std::int64_t offset =
      batch_offsets_[static_cast<std::size_t>(batch)] + first_column * column_stride_;
  const char* data = data_ + offset * static_cast<std::int64_t>(size_bytes(dtype_));
  return {data, dtype_, num_columns, k_, column_stride_, k_stride_};
}

const char* PanelsOfB::get(std::int64_t batch, std::int64_t first_column, std::int64_t num_columns,
                           char* scratch) const {
  Matrix matrix = panel(batch, first_column, num_columns);
  if (way_ == Way::direct) return matrix.data;
  if (way_ == Way::blocks) {
    pack_blocks(matrix, compute_, block_width(num_columns), scratch);
    return scratch;
  }
  if (way_ == Way::k_major) {
    pack(matrix, compute_, scratch, padded_k_);
    return scratch;
  }
  std::swap(matrix.num_rows, matrix.num_columns);
  std::swap(matrix.row_stride, matrix.column_stride);
  pack(matrix, compute_, scratch);
  const auto row_bytes = static_cast<std::size_t>(num_columns) * size_bytes(compute_);
  std::memset(scratch + static_cast<std::size_t>(k_) * row_bytes, 0,
              static_cast<std::size_t>(padded_k_ - k_) * row_bytes);
  return scratch;
}

// Packed rows of 256 bytes are four cache lines; longer ones make oneDNN's own copy slower.
std::int64_t PanelsOfB::best_width() const {
  constexpr std::int64_t kWidest = 384;
  if (way_ == Way::blocks) {
    return std::clamp(elements_of_panel() / k_ / kBlockWidth * kBlockWidth, kBlockWidth, kWidest);
  }
  return way_ == Way::n_major ? 256 / static_cast<std::int64_t>(size_bytes(compute_)) : kWidest;
}

}  // namespace epifuse::cpu
