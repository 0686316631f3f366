// Sums of products in float64, with what is needed to bound every float32 way of adding them up.
#pragma once

#include <array>
#include <cstdint>

#include "backends/reference/interval.h"

namespace epifuse::reference {

// Columns that one pass of the dot products handles side by side.
constexpr std::int64_t kLanes = 8;
using Lanes = std::array<double, kLanes>;

// Sums s = p[0] + p[1] + .. of eight columns, and the range that each walk s covers.
struct Sums {
  Lanes value{};    // sum of p
  Lanes lowest{};   // least partial sum, at most 0
  Lanes highest{};  // greatest partial sum, at least 0
  Lanes squares{};  // sum of p^2
};

// What bounds sums of fp8 products that keep few bits (docs/numerics.md), beside Sums: the walks of
// partial sums over windows of K, each of which starts from zero.
struct ShortSums {
  std::int64_t window;                         // products; all of K where nothing is promoted
  int step;                                    // products that are added at once
  std::int64_t filled = 0;                     // of the window that is open
  Lanes walk{}, lowest{}, highest{}, signs{};  // of it: partial sum, its range, sum of sign(p)
  Lanes ranges{}, biased{}, squares{};  // of whole windows: sums of range, range signs, range^2
  Lanes sizes{};                        // sum of |p|
};
void accumulate_short(const double* a, const double* b, std::int64_t count, ShortSums& sums);

// How far fp8 tensor cores may be from the sum of lane `lane` beside what bounded_sum allows.
double short_sum_error(ShortSums sums, std::size_t lane);

// What multiplying elements or sums of blocks by their scales may lose (docs/numerics.md).
double scaling_error(const Sums& sums, std::size_t lane, std::int64_t num_terms);

// How uncertain operands spread: c = |a| rb + ra |b| + ra rb bounds the change of one product.
struct Spread {
  bool conspires = false;  // errors of neighbours are one: only `linear` bounds them
  Lanes linear{};          // sum of c: everything conspires
  Lanes squares{};         // sum of c^2: independent errors
  Lanes shift_a{};         // sum of ra b: all a too large
  Lanes scale_a{};         // sum of sign(a) ra b: all a too large in magnitude
  Lanes shift_b{}, scale_b{};
};

// Adds the products of one row of A with eight columns of B, [count][kLanes].
void accumulate(const double* a, const double* b, std::int64_t count, Sums& sums);
void accumulate_spread(const double* a, const double* a_radius, const double* b,
                       const double* b_radius, std::int64_t count, Spread& spread);

// The bounded sum of lane `lane` over `num_terms` products; `spread` is null for exact operands,
// `more` is what the way of adding up allows beside the bound of float32. The caller handles sums
// with a non-finite value or spread (see sum_of_unbounded).
Interval bounded_sum(const Sums& sums, const Spread* spread, std::size_t lane,
                     std::int64_t num_terms, double more = 0);
// The sum of lane `lane` of products of integers, which is exact but for a rounding to float32.
Interval integer_sum(const Sums& sums, std::size_t lane);
bool is_bounded(const Sums& sums, const Spread* spread, std::size_t lane);

// Adds up terms among which infinities and NaN occur, in interval arithmetic.
class UnboundedSum {
 public:
  void add(const Interval& term);
  // A finite term of at most this magnitude: of a product before it is rounded.
  void add_finite(double value, double largest);
  Interval result() const;

 private:
  double value_ = 0, largest_ = 0;  // of finite terms, all of one sign
  bool certain_nan_ = false, uncertain_ = false;
  bool certain_inf_[2] = {false, false}, possible_inf_[2] = {false, false};  // minus, plus
};

}  // namespace epifuse::reference
