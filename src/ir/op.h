// The ops of the graph: the structural ones listed here, the elementwise ones of ops.def.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

namespace epifuse::ir {

enum class Op : std::uint8_t {
  input,             // a tensor bound at run time
  scalar,            // a float32 number passed by value at run time
  constant,          // a float32 number known now
  matmul,            // [.., M, K] x [.., K, N], either operand transposed
  grouped_matmul,    // [T, K] x [G, K, N] by ends [G], or [G, M, K] x [G, K, N] by counts [G]
  k_grouped_matmul,  // [M, K] x [K, N] by ends [G] along K -> [G, M, N]
  scaled_matmul,     // matmul of fp8 operands with scales of blocks of K
  scaled_grouped_matmul,
  transpose,    // view: permutes dims
  reshape,      // view: same elements in row-major order, another shape
  slice,        // view: start:stop:step of every dim
  broadcast,    // view: repeats size-1 and missing leading dims
  take_rows,    // view: [R, ..] by an index [T] -> [T, ..], row t is row index[t]
  repeat_rows,  // view: [G, ..] by ends [G] -> [T, ..], row t is that of t's group
  cast,         // rounds to another dtype; never dropped
  row_sum,      // [.., M, N] -> [.., M, 1]
  row_max,
  col_sum,  // [.., M, N] -> [.., 1, N]
  col_max,
  block_max,    // [.., M, N] -> [.., M, N]: of the block of columns that the element is in
  block_first,  // [.., M, N] -> [.., M, ceil(N / 128)]: the first element of each block
  concat,       // [.., N] and [.., N] -> [.., 2 N], one behind the other
  interleave,   // the same, elements by turns
  put_rows,     // [T, ..] by an index [T] -> [R, ..], row index[t] is row t
#define EPIFUSE_OP(name, ...) name,
#include "ir/ops.def"
#undef EPIFUSE_OP
};

enum class OpKind : std::uint8_t {
  source,
  matmul,
  view,
  cast,
  reduction,
  block,
  join,
  scatter,
  arith,
  compare,
  select
};

// A point of operand x0, x1 or x2 where an op turns, jumps or has a pole, or all its integers.
struct Turn {
  int operand = -1;  // -1: none
  double at = 0;
  bool at_integers = false;
};

// One row of the op table. The error columns are explained in ops.def; structural ops have none.
struct OpInfo {
  Op op;
  std::string_view name;
  int arity;
  OpKind kind;
  bool commutes;
  std::string_view expr;          // over x0, x1, x2 and T; empty for structural ops
  std::string_view fast, approx;  // CUDA text of the level, already resolved when it is inherited
  double in_eps, out_eps, approx_err;
  int cost;    // instructions an element on a GPU, about
  bool cheap;  // worth repeating rather than going through memory
  std::array<Turn, 5> turns;
  double (*reference)(const double* x);  // expr in double; null for structural ops
};

// A row of narrow_ops.def.
struct NarrowOp {
  Op op, narrow;
  double floor;
};
std::span<const NarrowOp> narrow_ops();
Op without_narrow(Op op);  // what a narrow op computes; any other op itself
// The absolute error of an op beside that of its row, as a share of |x0|; 0 of most.
double floor_of(Op op);

std::span<const OpInfo> all_ops();
const OpInfo& info(Op op);
std::string_view name(Op op);
std::optional<Op> op_from_name(std::string_view name);

// Columns of a block, counted from a row's first one; the last block may be shorter.
constexpr int kBlockColumns = 128;
// A block has one row, or is a square, which is whole: of [.., M, N] there are [.., M / 128, N /
// 128].
constexpr int kSquareRows = kBlockColumns;

// One result element depends on the same element of each operand, after broadcasting.
bool is_elementwise(Op op);     // arith, compare, select or cast
bool is_matmul(Op op);          // of any kind
bool is_grouped_matmul(Op op);  // whose rows are of groups
bool is_scaled_matmul(Op op);   // of fp8 operands with block scales, its last two operands
bool is_view(Op op);
bool is_lookup(Op op);  // a view whose rows are looked up in an integer operand, its second
bool is_reduction(Op op);
bool is_block(Op op);   // block_max or block_first
bool is_join(Op op);    // concat or interleave
bool is_source(Op op);  // input, scalar or constant

}  // namespace epifuse::ir
