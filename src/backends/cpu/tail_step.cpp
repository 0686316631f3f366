// Cuts a tail into blocks of rows and columns and shares them between threads.
#include "backends/cpu/tail_step.h"

#include <algorithm>

#include "backends/cpu/epilogue_run.h"
#include "backends/cpu/threads.h"
#include "base/ceil_div.h"

namespace epifuse::cpu {
namespace {

constexpr std::int64_t kBlockElements = 32 * kStripFloats;  // about one block, for one thread
constexpr std::int64_t kMinReducedRows = 256;               // in a block of a column reduction

// How the grid is cut; it depends on the problem alone, so that results do too.
struct Blocks {
  std::int64_t columns, rows, num_column_blocks, num_row_blocks;  // rows: of a batch
};

Blocks cut(const Grid& grid, const plan::Epilogue& epilogue) {
  Blocks blocks{};
  if (grid.num_rows() == 0 || grid.n == 0) return blocks;
  blocks.columns = std::min(grid.n, kBlockElements);
  blocks.rows = std::clamp<std::int64_t>(kBlockElements / blocks.columns, 1, grid.m);
  if (reduces_columns(epilogue))
    blocks.rows = std::min(std::max(blocks.rows, kMinReducedRows), grid.m);
  blocks.rows = round_up(blocks.rows, epilogue.block_rows);
  blocks.num_column_blocks = ceil_div(grid.n, blocks.columns);
  blocks.num_row_blocks = ceil_div(grid.m, blocks.rows);
  return blocks;
}

Tile tile_at(const Grid& grid, const Blocks& blocks, std::int64_t unit) {
  const std::int64_t column_block = unit % blocks.num_column_blocks;
  Tile tile;
  tile.row_block = unit / blocks.num_column_blocks;
  const std::int64_t batch = tile.row_block / blocks.num_row_blocks;
  const std::int64_t row = tile.row_block % blocks.num_row_blocks * blocks.rows;
  tile.first_row = batch * grid.m + row;
  tile.num_rows = std::min(blocks.rows, grid.m - row);
  tile.first_column = column_block * blocks.columns;
  tile.num_columns = std::min(blocks.columns, grid.n - tile.first_column);
  return tile;
}

// Rough time on one core: it only decides how many threads are worth waking.
double nanoseconds(const Grid& grid, const plan::Epilogue& epilogue) {
  const auto num_parts = static_cast<double>(epilogue.loads.size() + epilogue.computes.size() + 1);
  return static_cast<double>(grid.num_rows()) * static_cast<double>(grid.n) * 0.1 * num_parts;
}

}  // namespace

void run_tail(const ir::Graph& graph, const plan::Tail& tail, const EpilogueProgram& program,
              const codegen::Bound& bound, BufferPool& pool) {
  const bool keeps_columns = tail.epilogue.reduces() || tail.epilogue.has_blocks();
  EpilogueRun run(graph, tail.epilogue, program, bound, ir::eval(tail.shape, bound.sizes),
                  keeps_columns ? Merge::none : Merge::all);
  const Grid& grid = run.grid();
  const Blocks blocks = cut(grid, tail.epilogue);
  run.set_tiling(blocks.num_row_blocks, kStripFloats, pool);
  const int num_workers = workers_for(nanoseconds(grid, tail.epilogue));
  std::vector<EpilogueRun::Worker> workers(static_cast<std::size_t>(num_workers));
  run_units(grid.num_batches * blocks.num_row_blocks * blocks.num_column_blocks, num_workers,
            [&](std::int64_t unit, int worker) {
              run.run(tile_at(grid, blocks, unit), workers[static_cast<std::size_t>(worker)], pool);
            });
  run.finish();
}

}  // namespace epifuse::cpu
