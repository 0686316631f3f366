// The epilogue: what happens to each element between the accumulator (or the loads, in a tail) and
// the stores. A straight line of computes over float32 values; casts and roundings are explicit.
#pragma once

#include <array>
#include <string>
#include <vector>

#include "epifuse/dtype.h"
#include "ir/graph.h"
#include "ir/views.h"

namespace epifuse::plan {

// How an operand is indexed by the output coordinate (batch.., m, n).
enum class Access : std::uint8_t {
  parameter,  // a run-time scalar passed by value
  scalar,     // one value in memory
  row,        // x[n]: one value per output column, the usual bias
  col,        // x[m]: one value per output row, the usual per-token scale
  tile,       // x[m, n]: a full matrix, the usual residual
};
std::string_view name(Access access);

struct Load {
  std::string name;   // of the graph value; an identifier
  ir::ValueId value;  // in Plan::graph, usually a view; its storage is an input or temporary
  DType dtype;
  Access access;
  bool batched = false;      // also varies along a batch dim
  bool unit_stride = false;  // surely contiguous along the dim its access names (n for tile)
  ir::ValueId lookup = -1;  // the take_rows or repeat_rows whose rows it reads, if it looks them up
  bool by_group = false;    // a repeat_rows: one row for each group
  bool operator==(const Load&) const = default;
};

// Index of a value in an epilogue: first the accumulators, of which a gated product has two, then
// the loads, then one value per compute.
using Slot = int;

struct Compute {
  ir::Op op;  // elementwise, cast, constant or block_max
  std::array<Slot, 3> args{-1, -1, -1};
  double value = 0;          // constant
  DType dtype = DType::f32;  // of a cast: the dtype whose rounding is applied
  bool operator==(const Compute&) const = default;
};

// What is stored of a value: all of it, its reduction, or the first element of each block.
enum class StoreKind : std::uint8_t { tile, row_sum, row_max, col_sum, col_max, block_first };
std::string_view name(StoreKind kind);
bool reduces_rows(StoreKind kind);     // x[m, n] over n
bool reduces_columns(StoreKind kind);  // x[m, n] over m
bool reduces(StoreKind kind);          // either

// Which elements of the value's memory a store writes: all, or every one of a half of the columns.
// Pairs are even and odd columns in one store, as elements twice as wide: plans have none, kernels
// make them of 16-bit values.
enum class Part : std::uint8_t { whole, first_half, second_half, even, odd, pairs };
std::string_view name(Part part);
ir::Halves halves(Part part);  // which two parts it is one of
bool is_second(Part part);

struct Store {
  std::string name;
  ir::ValueId value;  // in Plan::graph: an output or a temporary
  DType dtype;        // rounding to it is part of the store
  StoreKind kind;
  Slot source;
  Part part = Part::whole;  // others of tiles only
  Slot second = -1;         // of pairs: the odd columns
  ir::ValueId index = -1;   // of put_rows: the integers that say where rows go
  bool operator==(const Store&) const = default;
};

struct Epilogue {
  int num_accumulators = 0;  // 1 of a product, 2 of a gated one
  int block_rows = 1;        // of all its blocks: ir::kSquareRows of squares
  std::vector<Load> loads;
  std::vector<Compute> computes;
  std::vector<Store> stores;

  bool has_accumulator() const { return num_accumulators > 0; }
  bool is_gated() const { return num_accumulators == 2; }
  Slot first_load() const { return num_accumulators; }
  Slot first_compute() const { return first_load() + static_cast<Slot>(loads.size()); }
  Slot num_slots() const { return first_compute() + static_cast<Slot>(computes.size()); }
  bool reduces() const;     // whether a store is a reduction
  bool has_blocks() const;  // whether it takes maxima of blocks or stores their first elements
  bool has_squares() const { return block_rows != 1; }
  bool operator==(const Epilogue&) const = default;
};

// Text for goldens, `explain` and comments of generated code:
//   load b: row bf16
//   t0 = add acc, b
//   store y: bf16 = t0
std::string print(const Epilogue& epilogue);
// "acc" ("gate" and "up" where there are two), the load's name or "t3".
std::string slot_name(const Epilogue& epilogue, Slot slot);
void verify(const Epilogue& epilogue);  // throws InternalError

// Ops in order, e.g. "bias+silu+residual": how results name an epilogue (DESIGN section 7).
std::string label(const Epilogue& epilogue);
std::string identifier(const Epilogue& epilogue);  // the same as a part of a name: "bias_silu"

}  // namespace epifuse::plan
