// The operands of a matrix product as the CPU reads them: dense rows of a, panels of b.
#pragma once

#include <cstdint>
#include <vector>

#include "backends/cpu/buffers.h"
#include "backends/cpu/grid.h"
#include "backends/cpu/matmul.h"
#include "backends/cpu/pack.h"
#include "codegen/bound.h"
#include "plan/plan.h"

namespace epifuse::cpu {

// A matrix product with all sizes known. `a` is seen over [batches.., m, k], each of `b` over
// [batches.., n, k]: the columns of all are k. A gated product has two of them.
struct GemmProblem {
  std::vector<std::int64_t> shape;  // of the result: batches.., m, n
  std::int64_t num_batches = 1;     // after merging
  std::int64_t m = 0, n = 0, k = 0;
  std::int64_t first_row = 0;  // among the rows of the epilogue, of a group's product
  std::int64_t num_rows = 0;   // of m: a group's product is computed for some more, in scratch
  bool merged = false;         // the rows of all batches are those of one product
  Grid a_grid, b_grid;
  Operand a;
  std::vector<Operand> b;
};

// `keeps_batches`: rows of different batches must not be merged (a reduction runs along them).
GemmProblem make_problem(const plan::Plan& plan, const plan::GemmDesc& gemm,
                         const codegen::Bound& bound, bool keeps_batches);

// The product of one batch over a part of K, from `first` on.
GemmProblem part_of_k(const GemmProblem& problem, std::int64_t batch, std::int64_t first,
                      std::int64_t count);

// A product for each group. `b` of each is seen over [g, n, k], `a` over its rows [t, k], or
// [g, m, k].
struct GroupedProblem {
  std::vector<std::int64_t> shape;  // of the result: t, n, or g, m, n
  std::int64_t n = 0, k = 0;
  Operand a;
  std::vector<Operand> b;

  // The product of `count` rows from `first_row` on, counted over all batches.
  GemmProblem group(std::int64_t group, std::int64_t first_row, std::int64_t count) const;
};
GroupedProblem make_grouped_problem(const plan::Plan& plan, const plan::GemmDesc& gemm,
                                    const codegen::Bound& bound);

// Whether oneDNN can read the columns of b as dense rows of k elements, where they lie; of a gated
// product's, after a copy of a panel at most.
bool has_dense_rows(const GemmProblem& problem, DType compute);

// Rows of a, k contiguous and rows padded_k() apart: where they are, or packed.
class RowsOfA {
 public:
  RowsOfA(const GemmProblem& problem, DType compute, BufferPool& pool);
  const char* at(std::int64_t batch, std::int64_t row) const;

 private:
  bool is_dense(const GemmProblem& problem) const;
  void pack_all(std::int64_t num_rows);

  DType compute_;
  std::int64_t k_, padded_k_;
  Grid grid_;
  Operand a_;
  std::vector<std::int64_t> batch_offsets_;  // in elements from data_
  const char* data_ = nullptr;
  BufferPool::Buffer packed_;
};

// Blocks of rows of a, packed for the product b * a^T.
class BlocksOfA {
 public:
  BlocksOfA() = default;
  BlocksOfA(const GemmProblem& problem, DType compute, const RowsOfA& rows,
            std::int64_t rows_per_block, BufferPool& pool);
  const char* at(std::int64_t batch, std::int64_t block) const {
    return data_ + batch * batch_bytes_ + block * block_bytes_;
  }

 private:
  const char* data_ = nullptr;
  std::int64_t block_bytes_ = 0, batch_bytes_ = 0;
  BufferPool::Buffer packed_;
};

// How panels of b (some columns of the product, all of k, zeros up to padded_k()) reach oneDNN.
class PanelsOfB {
 public:
  // Of `problem`'s operand number `which`. `reads_blocks`: oneDNN can be given blocks.
  PanelsOfB(const GemmProblem& problem, std::size_t which, DType compute, bool reads_blocks);
  bool packs() const { return way_ != Way::direct; }
  // What matmul is given for a panel of `num_columns`.
  MatrixType type(std::int64_t num_columns) const;
  std::size_t scratch_bytes(std::int64_t num_columns) const;
  // The panel's elements: in place, or packed into `scratch`.
  const char* get(std::int64_t batch, std::int64_t first_column, std::int64_t num_columns,
                  char* scratch) const;
  std::int64_t best_width() const;
  // The panel where it lies: a row for each column of the product.
  Matrix panel(std::int64_t batch, std::int64_t first_column, std::int64_t num_columns) const;
  bool is_k_major() const { return k_stride_ == 1; }

 private:
  // direct: in place; k_major: packed as [columns][k]; n_major: packed as [k][columns]; blocks:
  // packed as oneDNN's kernels read them.
  enum class Way : std::uint8_t { direct, k_major, n_major, blocks };
  Way choose(const GemmProblem& problem, const Operand& b, bool reads_blocks) const;
  Way choose_for_gate(const GemmProblem& problem, const Operand& b, bool reads_blocks) const;
  std::int64_t elements_of_panel() const;

  DType compute_, dtype_;
  std::int64_t k_, padded_k_, n_, column_stride_, k_stride_;
  std::vector<std::int64_t> batch_offsets_;
  const char* data_;
  Way way_;
};

}  // namespace epifuse::cpu
