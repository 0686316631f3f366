// The op table, built from ops.def, and the float64 meaning of every elementwise op.
#include "ir/op.h"

#include <array>
#include <cmath>

namespace epifuse::ir {
namespace {

using T = double;  // the type that ops.def writes its expressions in

#define EPIFUSE_OP(name, arity, kind, commutes, expr, ...) \
  double reference_##name(const double* x) {               \
    [[maybe_unused]] const T x0 = x[0];                    \
    [[maybe_unused]] const T x1 = arity > 1 ? x[1] : 0;    \
    [[maybe_unused]] const T x2 = arity > 2 ? x[2] : 0;    \
    return expr;                                           \
  }
#include "ir/ops.def"
#undef EPIFUSE_OP

constexpr OpInfo structural(Op op, std::string_view name, int arity, OpKind kind) {
  const bool cheap = kind == OpKind::cast;
  return {op, name, arity, kind, false, "", "", "", 0, 0, 0, 0, cheap, {}, nullptr};
}

// How ops.def writes turns.
constexpr Turn x0_at(double at) { return {0, at}; }
constexpr Turn x1_at(double at) { return {1, at}; }
constexpr Turn x1_at_integers() { return {.operand = 1, .at_integers = true}; }

constexpr std::string_view first_given(std::string_view a, std::string_view b) {
  return a.empty() ? b : a;
}

constexpr OpInfo kOps[] = {
    structural(Op::input, "input", 0, OpKind::source),
    structural(Op::scalar, "scalar", 0, OpKind::source),
    structural(Op::constant, "constant", 0, OpKind::source),
    structural(Op::matmul, "matmul", 2, OpKind::matmul),
    structural(Op::grouped_matmul, "grouped_matmul", 3, OpKind::matmul),
    structural(Op::k_grouped_matmul, "k_grouped_matmul", 3, OpKind::matmul),
    structural(Op::scaled_matmul, "scaled_matmul", 4, OpKind::matmul),
    structural(Op::scaled_grouped_matmul, "scaled_grouped_matmul", 5, OpKind::matmul),
    structural(Op::transpose, "transpose", 1, OpKind::view),
    structural(Op::reshape, "reshape", 1, OpKind::view),
    structural(Op::slice, "slice", 1, OpKind::view),
    structural(Op::broadcast, "broadcast", 1, OpKind::view),
    structural(Op::take_rows, "take_rows", 2, OpKind::view),
    structural(Op::repeat_rows, "repeat_rows", 2, OpKind::view),
    structural(Op::cast, "cast", 1, OpKind::cast),
    structural(Op::row_sum, "row_sum", 1, OpKind::reduction),
    structural(Op::row_max, "row_max", 1, OpKind::reduction),
    structural(Op::col_sum, "col_sum", 1, OpKind::reduction),
    structural(Op::col_max, "col_max", 1, OpKind::reduction),
    structural(Op::block_max, "block_max", 1, OpKind::block),
    structural(Op::block_first, "block_first", 1, OpKind::block),
    structural(Op::concat, "concat", 2, OpKind::join),
    structural(Op::interleave, "interleave", 2, OpKind::join),
    structural(Op::put_rows, "put_rows", 2, OpKind::scatter),
#define EPIFUSE_OP(name, arity, kind, commutes, expr, fast, in_eps, out_eps, approx, approx_err, \
                   cost, cheap, ...)                                                             \
  {Op::name,                                                                                     \
   #name,                                                                                        \
   arity,                                                                                        \
   OpKind::kind,                                                                                 \
   commutes,                                                                                     \
   #expr,                                                                                        \
   first_given(fast, #expr),                                                                     \
   first_given(approx, first_given(fast, #expr)),                                                \
   in_eps,                                                                                       \
   out_eps,                                                                                      \
   approx_err,                                                                                   \
   cost,                                                                                         \
   cheap,                                                                                        \
   {__VA_ARGS__},                                                                                \
   reference_##name},
#include "ir/ops.def"
#undef EPIFUSE_OP
};

constexpr bool rows_are_in_order() {
  for (std::size_t i = 0; i < std::size(kOps); ++i) {
    if (kOps[i].op != static_cast<Op>(i)) return false;
  }
  return true;
}
static_assert(rows_are_in_order(), "info() indexes the table by op");

}  // namespace

std::span<const NarrowOp> narrow_ops() {
  static constexpr NarrowOp kNarrowOps[] = {
#define EPIFUSE_NARROW(op, narrow, floor) {Op::op, Op::narrow, floor},
#include "ir/narrow_ops.def"
#undef EPIFUSE_NARROW
  };
  return kNarrowOps;
}

Op without_narrow(Op op) {
  for (const NarrowOp& row : narrow_ops()) {
    if (row.narrow == op) return row.op;
  }
  return op;
}

double floor_of(Op op) {
  for (const NarrowOp& row : narrow_ops()) {
    if (row.narrow == op) return row.floor;
  }
  return 0;
}

std::span<const OpInfo> all_ops() { return kOps; }

const OpInfo& info(Op op) { return kOps[static_cast<std::size_t>(op)]; }

std::string_view name(Op op) { return info(op).name; }

std::optional<Op> op_from_name(std::string_view name) {
  for (const OpInfo& row : kOps) {
    if (row.name == name) return row.op;
  }
  return std::nullopt;
}

bool is_elementwise(Op op) {
  const OpKind kind = info(op).kind;
  return kind == OpKind::arith || kind == OpKind::compare || kind == OpKind::select ||
         kind == OpKind::cast;
}
bool is_matmul(Op op) { return info(op).kind == OpKind::matmul; }
bool is_grouped_matmul(Op op) {
  return op == Op::grouped_matmul || op == Op::scaled_grouped_matmul;
}
bool is_scaled_matmul(Op op) { return op == Op::scaled_matmul || op == Op::scaled_grouped_matmul; }
bool is_lookup(Op op) { return op == Op::take_rows || op == Op::repeat_rows; }
bool is_view(Op op) { return info(op).kind == OpKind::view; }
bool is_reduction(Op op) { return info(op).kind == OpKind::reduction; }
bool is_block(Op op) { return info(op).kind == OpKind::block; }
bool is_join(Op op) { return info(op).kind == OpKind::join; }
bool is_source(Op op) { return info(op).kind == OpKind::source; }

}  // namespace epifuse::ir
