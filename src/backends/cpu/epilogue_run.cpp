// The block interpreter: loads, ops and stores over strips.
#include "backends/cpu/epilogue_run.h"

#include <algorithm>
#include <cstring>

#include "backends/rows.h"
#include "base/ceil_div.h"
#include "base/check.h"

namespace epifuse::cpu {
namespace {

constexpr std::int64_t kLine = 64;  // bytes

// Rows of a tile lie far apart, which hides them from the processor's own prefetching.
void prefetch(const char* data, std::int64_t num_bytes) {
  for (std::int64_t at = 0; at < num_bytes; at += kLine) __builtin_prefetch(data + at, 0, 3);
}
void prefetch_to_write(const char* data, std::int64_t num_bytes) {
  for (std::int64_t at = 0; at < num_bytes; at += kLine) __builtin_prefetch(data + at, 1, 3);
}

// Whether the row `ahead` of a strip's is worth fetching: it is in the tile, and contiguous.
bool has_row_ahead(const Operand& operand, std::int64_t row, const Tile& tile) {
  return operand.column_stride == 1 && !operand.looks_up_columns() && row < tile.num_rows;
}

}  // namespace

EpilogueRun::EpilogueRun(const ir::Graph& graph, const plan::Epilogue& epilogue,
                         const EpilogueProgram& program, const codegen::Bound& bound,
                         const std::vector<std::int64_t>& shape, Merge merge)
    : epilogue_(epilogue),
      program_(program),
      strips_(best_strips()),
      column_unit_(epilogue.has_blocks() ? ir::kBlockColumns : 1),
      grid_(make_grid(shape)) {
  for (const plan::Load& load : epilogue.loads) add_load(graph, load, bound, shape);
  for (const plan::Store& store : epilogue.stores) {
    add_store(store, codegen::stored(bound, store), shape);
    if (store.index < 0) continue;
    Operand& rows = stores_.back();
    const std::int64_t stride = codegen::stored(bound, store).layout.strides.front();
    rows.row_strides.front() = stride;
    look_up(rows, 0, stride, backends::looked_up_rows(graph, graph[store.value], bound));
  }
  std::vector<Operand*> operands;
  for (Operand& operand : loads_) operands.push_back(&operand);
  for (std::size_t i = 0; i < stores_.size(); ++i) {
    if (reduction_index_[i] < 0 && !is_of_squares(i)) operands.push_back(&stores_[i]);
  }
  coalesce_rows(grid_, operands);
  if (merge != Merge::none) {
    grid_.m = grid_.num_rows();
    grid_.num_batches = 1;
  }
  if (merge == Merge::all) coalesce_columns(grid_, operands);
}

void EpilogueRun::add_load(const ir::Graph& graph, const plan::Load& load,
                           const codegen::Bound& bound, const std::vector<std::int64_t>& shape) {
  const bool is_parameter = load.access == plan::Access::parameter;
  const auto value = static_cast<std::size_t>(load.value);
  parameters_.push_back(is_parameter ? static_cast<float>(bound.scalars[value]) : 0.0f);
  const codegen::BoundTensor number{nullptr, {}};
  const codegen::BoundTensor& tensor = is_parameter ? number : bound.tensors[value];
  loads_.push_back(make_operand(tensor, load.dtype, shape));
  if (load.lookup < 0) return;
  const std::size_t dim = ir::lookup(graph, load.value)->dim;
  look_up(loads_.back(), shape.size() - tensor.layout.shape.size() + dim,
          tensor.layout.strides[dim], backends::looked_up_rows(graph, graph[load.lookup], bound));
}

void EpilogueRun::add_store(const plan::Store& store, const codegen::BoundTensor& tensor,
                            std::vector<std::int64_t> shape) {
  if (store.kind == plan::StoreKind::tile) {
    stores_.push_back(make_operand(tensor, store.dtype, shape));
    reduction_index_.push_back(-1);
    return;
  }
  if (store.kind == plan::StoreKind::block_first) {
    shape.back() = ceil_div(shape.back(), ir::kBlockColumns);
    shape[shape.size() - 2] /= epilogue_.block_rows;
    if (epilogue_.has_squares()) block_grid_ = make_grid(shape);
    stores_.push_back(make_operand(tensor, store.dtype, shape));
    reduction_index_.push_back(-1);
    return;
  }
  shape[shape.size() - (reduces_rows(store.kind) ? 1 : 2)] = 1;
  stores_.emplace_back();
  reduction_index_.push_back(static_cast<int>(reductions_.size()));
  reductions_.push_back(
      {store.kind, make_grid(shape), make_operand(tensor, store.dtype, shape), {}});
}

void EpilogueRun::run(const Tile& tile, Worker& worker, BufferPool& pool) const {
  start_worker(worker, pool);
  const auto num_rows = static_cast<std::size_t>(tile.num_rows);
  worker.load_offsets.resize(loads_.size() * num_rows);
  worker.store_offsets.resize(stores_.size() * num_rows);
  for (std::size_t i = 0; i < loads_.size(); ++i) {
    row_offsets(grid_, loads_[i], tile.first_row,
                std::span(worker.load_offsets).subspan(i * num_rows, num_rows));
  }
  for (std::size_t i = 0; i < stores_.size(); ++i) {
    if (reduction_index_[i] >= 0) continue;
    const std::int64_t rows = is_of_squares(i) ? epilogue_.block_rows : 1;
    row_offsets(rows > 1 ? block_grid_ : grid_, stores_[i], tile.first_row / rows,
                std::span(worker.store_offsets)
                    .subspan(i * num_rows, num_rows / static_cast<std::size_t>(rows)));
  }
  start_reductions(tile);
  EPIFUSE_CHECK(tile.accumulators[0] == nullptr || tile.num_columns <= most_columns(),
                "an accumulator tile is wider than a strip");
  EPIFUSE_CHECK(tile.first_row % row_unit() == 0 && tile.num_rows % row_unit() == 0,
                "a tile has parts of blocks");
  for (std::int64_t column = 0; column < tile.num_columns; column += most_columns()) {
    const std::int64_t num_columns = std::min(most_columns(), tile.num_columns - column);
    Chunk chunk{tile, tile.first_column + column, num_columns, strip_floats() / num_columns};
    run_chunk(tile, worker, chunk);
  }
}

bool EpilogueRun::is_of_squares(std::size_t store) const {
  return epilogue_.has_squares() && epilogue_.stores[store].kind == plan::StoreKind::block_first;
}

void EpilogueRun::start_worker(Worker& worker, BufferPool& pool) const {
  if (worker.is_ready) return;
  const auto num_floats = static_cast<std::size_t>(program_.num_buffers * strip_floats());
  worker.memory = pool.borrow(num_floats * sizeof(float));
  std::memset(worker.memory.data(), 0, num_floats * sizeof(float));
  const Tile none;
  Chunk chunk{none, 0, strip_floats(), 1, 0, 1};
  for (const Instruction& instruction : program_.once) {
    if (instruction.kind == Instruction::Kind::load) {
      load_once(instruction, worker);
    } else {
      execute(instruction, worker, chunk);
    }
  }
  worker.is_ready = true;
}

void EpilogueRun::run_chunk(const Tile& tile, const Worker& worker, Chunk& chunk) const {
  chunk.num_rows = std::min(chunk.rows_per_strip, tile.num_rows);
  for (const Instruction& instruction : program_.per_columns) {
    if (instruction.kind == Instruction::Kind::load) {
      load_columns(instruction, worker, chunk);
    } else {
      execute(instruction, worker, chunk);
    }
  }
  for (chunk.row = 0; chunk.row < tile.num_rows; chunk.row += chunk.rows_per_strip) {
    chunk.num_rows = std::min(chunk.rows_per_strip, tile.num_rows - chunk.row);
    for (const Instruction& instruction : program_.per_strip) {
      if (instruction.kind == Instruction::Kind::load) {
        load_strip(instruction, worker, chunk);
      } else if (instruction.kind == Instruction::Kind::store) {
        store_strip(instruction, worker, chunk);
      } else {
        execute(instruction, worker, chunk);
      }
    }
  }
}

float* EpilogueRun::buffer(const Worker& worker, int index) const {
  return worker.memory.floats() + index * strip_floats();
}

const float* EpilogueRun::source(const Worker& worker, const Chunk& chunk, int index) const {
  if (index == kAccumulator || index == kSecondAccumulator) {
    return chunk.tile.accumulators[index == kAccumulator ? 0 : 1] + chunk.row * chunk.num_columns;
  }
  return index == kNoBuffer ? nullptr : buffer(worker, index);
}

void EpilogueRun::execute(const Instruction& instruction, const Worker& worker,
                          const Chunk& chunk) const {
  const auto index = static_cast<std::size_t>(instruction.index);
  float* out = buffer(worker, instruction.out);
  const float* x0 = source(worker, chunk, instruction.in[0]);
  const std::int64_t n = chunk.num_floats();
  switch (instruction.kind) {
    case Instruction::Kind::fill: return strips_.fill(out, instruction.value, n);
    case Instruction::Kind::round: return strips_.round[index](out, x0, n);
    case Instruction::Kind::op:
      return strips_.op[index](out, x0, source(worker, chunk, instruction.in[1]),
                               source(worker, chunk, instruction.in[2]), n);
    case Instruction::Kind::block_max: return fill_blocks(out, x0, chunk);
    default: EPIFUSE_CHECK(false, "a load or a store is not executed here");
  }
}

// Each block of a row becomes its maximum: chunks begin where blocks do, and are squares.
void EpilogueRun::fill_blocks(float* out, const float* in, const Chunk& chunk) const {
  if (epilogue_.has_squares()) {
    const auto largest = static_cast<float>(strips_.max(in, chunk.num_floats()));
    return strips_.fill(out, largest, chunk.num_floats());
  }
  for (std::int64_t row = 0; row < chunk.num_rows; ++row) {
    for (std::int64_t column = 0; column < chunk.num_columns; column += ir::kBlockColumns) {
      const std::int64_t at = row * chunk.num_columns + column;
      const std::int64_t end =
          std::min<std::int64_t>(chunk.num_columns - column, ir::kBlockColumns) + at;
      const auto largest = static_cast<float>(strips_.max(in + at, end - at));
      std::fill(out + at, out + end, largest);
    }
  }
}

void EpilogueRun::load_once(const Instruction& instruction, const Worker& worker) const {
  const auto i = static_cast<std::size_t>(instruction.index);
  float value = parameters_[i];
  if (epilogue_.loads[i].access != plan::Access::parameter) {
    strips_.load[static_cast<std::size_t>(loads_[i].dtype)](&value, loads_[i].data, 0, 1);
  }
  strips_.fill(buffer(worker, instruction.out), value, strip_floats());
}

// The columns of a chunk, of the row at `offset`.
void EpilogueRun::load_row(const Operand& operand, std::int64_t offset, const Chunk& chunk,
                           float* out) const {
  const auto load = strips_.load[static_cast<std::size_t>(operand.dtype)];
  const std::int64_t stride = operand.column_stride;
  if (!operand.looks_up_columns()) {
    load(out, operand.at(offset + chunk.first_column * stride), stride, chunk.num_columns);
    return;
  }
  for (std::int64_t column = 0; column < chunk.num_columns; ++column) {
    const auto at = static_cast<std::size_t>(chunk.first_column + column);
    load(out + column, operand.at(offset + (*operand.rows)[at] * stride), 0, 1);
  }
}

// The row, repeated for each row of the strip.
void EpilogueRun::load_columns(const Instruction& instruction, const Worker& worker,
                               const Chunk& chunk) const {
  const Operand& operand = loads_[static_cast<std::size_t>(instruction.index)];
  float* out = buffer(worker, instruction.out);
  load_row(operand, 0, chunk, out);
  const auto row_bytes = static_cast<std::size_t>(chunk.num_columns) * sizeof(float);
  for (std::int64_t row = 1; row < chunk.num_rows; ++row) {
    std::memcpy(out + row * chunk.num_columns, out, row_bytes);
  }
}

void EpilogueRun::load_strip(const Instruction& instruction, const Worker& worker,
                             const Chunk& chunk) const {
  const auto i = static_cast<std::size_t>(instruction.index);
  const Operand& operand = loads_[i];
  const std::int64_t* offsets =
      worker.load_offsets.data() + static_cast<std::int64_t>(i) * chunk.tile.num_rows + chunk.row;
  float* out = buffer(worker, instruction.out);
  const std::int64_t num_bytes = operand.at(chunk.num_columns) - operand.data;
  for (std::int64_t row = 0; row < chunk.num_rows; ++row) {
    load_row(operand, offsets[row], chunk, out);
    out += chunk.num_columns;
    const std::int64_t ahead = row + chunk.rows_per_strip;
    if (has_row_ahead(operand, chunk.row + ahead, chunk.tile)) {
      prefetch(operand.at(offsets[ahead] + chunk.first_column), num_bytes);
    }
  }
}

// The first column of each block, in the first of its rows.
void EpilogueRun::store_first(const Operand& operand, const std::int64_t* offsets, const float* in,
                              const Chunk& chunk) const {
  const auto store = strips_.store[static_cast<std::size_t>(operand.dtype)];
  for (std::int64_t row = 0; row < chunk.num_rows / row_unit(); ++row, in += chunk.num_columns) {
    for (std::int64_t column = 0; column < chunk.num_columns; column += ir::kBlockColumns) {
      const std::int64_t block = (chunk.first_column + column) / ir::kBlockColumns;
      store(operand.at(offsets[row] + block * operand.column_stride), 1, in + column, 1);
    }
  }
}

void EpilogueRun::store_strip(const Instruction& instruction, const Worker& worker,
                              const Chunk& chunk) const {
  const auto i = static_cast<std::size_t>(instruction.index);
  const float* in = source(worker, chunk, instruction.in[0]);
  if (reduction_index_[i] >= 0) {
    return reduce_strip(reductions_[static_cast<std::size_t>(reduction_index_[i])], in, chunk);
  }
  const Operand& operand = stores_[i];
  const bool is_first = epilogue_.stores[i].kind == plan::StoreKind::block_first;
  const std::int64_t* offsets = worker.store_offsets.data() +
                                static_cast<std::int64_t>(i) * chunk.tile.num_rows +
                                chunk.row / (is_first ? row_unit() : 1);
  if (is_first) return store_first(operand, offsets, in, chunk);
  const auto store = strips_.store[static_cast<std::size_t>(operand.dtype)];
  const std::int64_t stride = operand.column_stride;
  const std::int64_t num_bytes = operand.at(chunk.num_columns) - operand.data;
  for (std::int64_t row = 0; row < chunk.num_rows; ++row) {
    const std::int64_t ahead = row + chunk.rows_per_strip;
    if (has_row_ahead(operand, chunk.row + ahead, chunk.tile)) {
      prefetch_to_write(operand.at(offsets[ahead] + chunk.first_column), num_bytes);
    }
    store(operand.at(offsets[row] + chunk.first_column * stride), stride, in, chunk.num_columns);
    in += chunk.num_columns;
  }
}

}  // namespace epifuse::cpu
