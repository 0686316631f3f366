// Runs an epilogue over tiles of a grid, strip by strip.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "backends/cpu/buffers.h"
#include "backends/cpu/epilogue_program.h"
#include "backends/cpu/grid.h"
#include "backends/cpu/strips.h"
#include "codegen/bound.h"

namespace epifuse::cpu {

constexpr std::int64_t kStripFloats = 1024;  // 4 KiB a buffer: the live ones fit the first cache
// A strip of an epilogue with squares is one: its maximum is known before what depends on it.
constexpr std::int64_t kSquareFloats = std::int64_t{ir::kSquareRows} * ir::kBlockColumns;

// A block of the grid. Rows of a tile belong to one batch.
struct Tile {
  std::int64_t first_row = 0, num_rows = 0;
  std::int64_t first_column = 0, num_columns = 0;
  std::int64_t row_block = 0;  // which block of rows of the whole grid: for column reductions
  // Of each product, dense num_rows x num_columns; needs num_columns <= most_columns().
  std::array<const float*, 2> accumulators{};
};

// How far the dims of a shape may be merged into fewer and longer rows.
enum class Merge : std::uint8_t {
  none,     // rows of a batch stay together, as reductions along them need
  batches,  // all rows are one batch; columns stay, as the columns of a matrix product
  all,      // columns as well, where operands allow
};

// One epilogue bound to the tensors of one run. Tiles may be run by several threads at once, each
// with its own Worker; then finish() stores the reductions.
class EpilogueRun {
 public:
  // Scratch of one thread.
  struct Worker {
    BufferPool::Buffer memory;
    std::vector<std::int64_t> load_offsets, store_offsets;  // per operand and row of the tile
    bool is_ready = false;                                  // once-instructions are done
  };

  // `shape` is that of the elements the epilogue works on. Without reductions, and when
  // `merge_dims`, rows are merged as far as the operands allow.
  EpilogueRun(const ir::Graph& graph, const plan::Epilogue& epilogue,
              const EpilogueProgram& program, const codegen::Bound& bound,
              const std::vector<std::int64_t>& shape, Merge merge);

  const Grid& grid() const { return grid_; }
  bool has_reductions() const { return !reductions_.empty(); }
  bool wants_whole_tiles() const { return has_reductions() || epilogue_.has_squares(); }
  // Tiles begin at multiples of so many columns and rows.
  std::int64_t column_unit() const { return column_unit_; }
  std::int64_t row_unit() const { return epilogue_.block_rows; }
  // Of a strip: tiles of accumulators are no wider.
  std::int64_t most_columns() const {
    return epilogue_.has_squares() ? ir::kBlockColumns : kStripFloats;
  }
  // How tiles cut the grid: reductions keep one partial result for each block of rows and for each
  // chunk of columns.
  void set_tiling(std::int64_t row_blocks_per_batch, std::int64_t columns_per_chunk,
                  BufferPool& pool);
  void run(const Tile& tile, Worker& worker, BufferPool& pool) const;
  void finish() const;

 private:
  struct Reduction {
    plan::StoreKind kind;
    Grid grid;  // of the result: one column, or one row for each batch
    Operand result;
    BufferPool::Buffer partials;  // doubles
    double* values() const { return reinterpret_cast<double*>(partials.data()); }
  };
  // Columns of a tile that fit a strip, and the rows of it that make up the strip at hand.
  struct Chunk {
    const Tile& tile;
    std::int64_t first_column, num_columns;
    std::int64_t rows_per_strip;
    std::int64_t row = 0, num_rows = 0;  // of the strip, counted from the tile's first row
    std::int64_t num_floats() const { return num_rows * num_columns; }
  };

  void add_load(const ir::Graph& graph, const plan::Load& load, const codegen::Bound& bound,
                const std::vector<std::int64_t>& shape);
  void add_store(const plan::Store& store, const codegen::BoundTensor& tensor,
                 std::vector<std::int64_t> shape);
  std::int64_t strip_floats() const {
    return epilogue_.has_squares() ? kSquareFloats : kStripFloats;
  }
  void load_row(const Operand& operand, std::int64_t offset, const Chunk& chunk, float* out) const;
  float* buffer(const Worker& worker, int index) const;
  const float* source(const Worker& worker, const Chunk& chunk, int index) const;
  void start_worker(Worker& worker, BufferPool& pool) const;
  void run_chunk(const Tile& tile, const Worker& worker, Chunk& chunk) const;
  void start_reductions(const Tile& tile) const;
  void execute(const Instruction& instruction, const Worker& worker, const Chunk& chunk) const;
  void fill_blocks(float* out, const float* in, const Chunk& chunk) const;
  void load_once(const Instruction& instruction, const Worker& worker) const;
  void load_columns(const Instruction& instruction, const Worker& worker, const Chunk& chunk) const;
  void load_strip(const Instruction& instruction, const Worker& worker, const Chunk& chunk) const;
  void store_strip(const Instruction& instruction, const Worker& worker, const Chunk& chunk) const;
  bool is_of_squares(std::size_t store) const;  // one value of each
  void store_first(const Operand& operand, const std::int64_t* offsets, const float* in,
                   const Chunk& chunk) const;
  void reduce_strip(const Reduction& reduction, const float* in, const Chunk& chunk) const;
  void finish(const Reduction& reduction) const;

  const plan::Epilogue& epilogue_;
  const EpilogueProgram& program_;
  const StripKernels& strips_;
  std::int64_t column_unit_;
  Grid grid_;
  Grid block_grid_;                      // of what is stored of squares, one row for each
  std::vector<Operand> loads_, stores_;  // a reduction's store has no operand here
  std::vector<float> parameters_;        // by load
  std::vector<int> reduction_index_;     // by store; -1: none
  std::vector<Reduction> reductions_;
  std::int64_t row_blocks_per_batch_ = 0, columns_per_chunk_ = 0, num_chunks_ = 0;
};

}  // namespace epifuse::cpu
