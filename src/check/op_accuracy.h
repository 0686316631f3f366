// How close a target's functions come to the meaning of the ops: each op run by itself over many
// operands, against float64 and against the bound that verification grants it (docs/numerics.md).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "epifuse/program.h"
#include "ir/op.h"

namespace epifuse {

// What was found for one op at one level. Errors are |result - reference| of finite results whose
// reference is a normal float32 number or 0; a unit in the last place is that of the reference.
// What a flushed factor explains (rule 4 of docs/numerics.md) is not counted in the first three.
struct OpAccuracy {
  ir::Op op = ir::Op::add;
  Numerics numerics = Numerics::fast;
  std::int64_t num_samples = 0;
  double max_ulps = 0;         // in units of float32
  std::array<double, 3> at{};  // the operands where that is
  double max_bf16_ulps = 0;    // after rounding the result to bf16, in units of bf16
  // The share of operands of the usual sizes whose result, rounded to bf16, is not the reference
  // rounded to bf16.
  double bf16_differ = 0;
  double max_small_error = 0;   // the largest error where |reference| < 2^-20
  double max_scaled_error = 0;  // the largest error / (1 + |x0|)
  // The largest error as a share of what is allowed; above 1 where a result is refused.
  double max_share_of_bound = 0;
  std::int64_t num_refused = 0;
  std::string first_refused;  // "silu(-3.5): got .., expected .. within [.., ..]"
};

// Ops that have an accuracy: arithmetic, in order of ops.def.
std::vector<ir::Op> measurable_ops();

// Whether `approx` computes the op by another text than `fast`.
bool has_own_approx(ir::Op op);

// Compiles a graph of the one op over float32 tensors, runs it and compares every result.
// `num_usual` sets the number of samples (op_samples.h). Throws as compile and run do.
OpAccuracy measure_accuracy(ir::Op op, Numerics numerics, const Target& target,
                            std::size_t num_usual);

}  // namespace epifuse
