// Reductions of an epilogue: a partial result for each tile, then all of them in a fixed order, so
// that the bits do not depend on which thread did what.
#include <algorithm>
#include <limits>

#include "backends/cpu/epilogue_run.h"

namespace epifuse::cpu {
namespace {

bool is_max(plan::StoreKind kind) {
  return kind == plan::StoreKind::row_max || kind == plan::StoreKind::col_max;
}

double identity(plan::StoreKind kind) {
  return is_max(kind) ? -std::numeric_limits<double>::infinity() : 0.0;
}

double combine(plan::StoreKind kind, double x, double y) {
  if (!is_max(kind)) return x + y;
  return y > x || y != y ? y : x;
}

}  // namespace

void EpilogueRun::set_tiling(std::int64_t row_blocks_per_batch, std::int64_t columns_per_chunk,
                             BufferPool& pool) {
  row_blocks_per_batch_ = row_blocks_per_batch;
  columns_per_chunk_ = std::max<std::int64_t>(columns_per_chunk, 1);
  num_chunks_ = (grid_.n + columns_per_chunk_ - 1) / columns_per_chunk_;
  for (Reduction& reduction : reductions_) {
    const std::int64_t num_partials = reduces_rows(reduction.kind)
                                          ? grid_.num_rows() * num_chunks_
                                          : grid_.num_batches * row_blocks_per_batch_ * grid_.n;
    reduction.partials = pool.borrow(static_cast<std::size_t>(num_partials) * sizeof(double));
  }
}

// Column reductions are gathered in place over the rows of the tile.
void EpilogueRun::start_reductions(const Tile& tile) const {
  for (const Reduction& reduction : reductions_) {
    const plan::StoreKind kind = reduction.kind;
    if (reduces_rows(kind)) continue;
    double* partials = reduction.values() + tile.row_block * grid_.n + tile.first_column;
    std::fill_n(partials, tile.num_columns, identity(kind));
  }
}

void EpilogueRun::reduce_strip(const Reduction& reduction, const float* in,
                               const Chunk& chunk) const {
  const plan::StoreKind kind = reduction.kind;
  const std::int64_t n = chunk.num_columns;
  if (reduces_rows(kind)) {
    const auto reduce = is_max(kind) ? strips_.max : strips_.sum;
    const std::int64_t index = chunk.first_column / columns_per_chunk_;
    for (std::int64_t row = 0; row < chunk.num_rows; ++row) {
      const std::int64_t grid_row = chunk.tile.first_row + chunk.row + row;
      reduction.values()[grid_row * num_chunks_ + index] = reduce(in + row * n, n);
    }
    return;
  }
  const auto gather = is_max(kind) ? strips_.max_to : strips_.add_to;
  double* partials = reduction.values() + chunk.tile.row_block * grid_.n + chunk.first_column;
  for (std::int64_t row = 0; row < chunk.num_rows; ++row) gather(partials, in + row * n, n);
}

void EpilogueRun::finish() const {
  for (const Reduction& reduction : reductions_) finish(reduction);
}

// Each result is combined of parts: chunks of its row, or blocks of rows of its columns.
void EpilogueRun::finish(const Reduction& reduction) const {
  const Operand& result = reduction.result;
  const auto store = strips_.store[static_cast<std::size_t>(result.dtype)];
  std::vector<std::int64_t> offsets(static_cast<std::size_t>(reduction.grid.num_rows()));
  row_offsets(reduction.grid, result, 0, offsets);
  const bool by_rows = reduces_rows(reduction.kind);
  const std::int64_t num_parts = by_rows ? num_chunks_ : row_blocks_per_batch_;
  const std::int64_t columns = by_rows ? 1 : grid_.n;
  const double* partials = reduction.values();
  std::vector<float> values(static_cast<std::size_t>(columns));
  for (const std::int64_t offset : offsets) {
    for (std::int64_t column = 0; column < columns; ++column) {
      double total = identity(reduction.kind);
      for (std::int64_t part = 0; part < num_parts; ++part) {
        total = combine(reduction.kind, total, partials[part * columns + column]);
      }
      values[static_cast<std::size_t>(column)] = static_cast<float>(total);
    }
    store(result.at(offset), result.column_stride, values.data(), columns);
    partials += num_parts * columns;
  }
}

}  // namespace epifuse::cpu
