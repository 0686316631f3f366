// Arithmetic on bounded values: what a correct float32 computation of each op may give.
#pragma once

#include <algorithm>
#include <cmath>
#include <span>

#include "backends/reference/evaluate.h"
#include "epifuse/dtype.h"
#include "ir/op.h"

namespace epifuse::reference {

// An Interval is one of
//   {low, value, high}   low <= high, infinities included: a result is right within [low, high]
//   {NaN, NaN, NaN}      the result must be NaN
//   {NaN, value, NaN}    the result may be anything, NaN included
//   {-inf, NaN, inf}     the same where the reference itself is NaN
//   {inf, NaN, -inf}     nothing is computed here (a row of no group): nor is what follows from it
// A zero of either sign is {-0, value, +0}.
inline Interval exactly(double value) { return {value, value, value}; }
Interval anything(double value);
Interval undefined();
bool is_undefined(const Interval& x);
bool is_exact(const Interval& x);  // one value, or certainly NaN
bool may_be_nan(const Interval& x);
bool must_be_nan(const Interval& x);

// The greatest of its points; infinite or NaN where an end is.
inline double magnitude_of(const Interval& x) {
  return std::max(std::abs(x.low), std::abs(x.high));
}

// How far the ends are from the value; infinite or NaN where they are.
double radius_of(const Interval& x);

// The op on every point of the operands, widened by the error columns of ops.def.
Interval apply(const ir::OpInfo& op, std::span<const Interval> operands, Numerics numerics);

// Rounds all three to `dtype`: nearest-even is monotone, so the ends stay ends.
Interval round_to(const Interval& x, DType dtype);

// Both ends moved out to infinity where float32 overflows, and to zero where a subnormal may flush.
Interval limit_to_float32(const Interval& x);

// The interval that holds both.
Interval hull(const Interval& a, const Interval& b, double value);

// Whether `result` is right; signed zeros are equal.
bool accepts(const Interval& allowed, double result);

// The error of `result` over what is allowed on its side of `value`; above 1 exactly when the
// result is not accepted.
double share_of_allowed(const Interval& allowed, double value, double result, DType dtype);

}  // namespace epifuse::reference
