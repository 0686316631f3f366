// Intervals through the elementwise ops: images of boxes, widened by each op's error bound.
#include "backends/reference/interval.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "base/float_types.h"

namespace epifuse::reference {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
constexpr double kEps = 0x1p-24;              // half an ulp of float32
constexpr double kSmallestNormal = 0x1p-126;  // below it a result may be flushed to zero
constexpr double kSmallestSubnormal = 0x1p-149;
constexpr double kOverflow = 0x1.ffffffp127;  // rounds to infinity in float32

// The values of one operand that decide the image of a box.
struct Candidates {
  std::array<double, 10> at;
  int num = 0;
  void add(double x) { at[static_cast<std::size_t>(num++)] = x; }
};

double outward(double x, double by) { return std::isfinite(x) ? x + by : x; }

Interval widen_operand(const Interval& x, double in_eps) {
  Interval wide = x;
  if (in_eps > 0) {
    wide.low = outward(x.low, -in_eps * kEps * std::abs(x.low));
    wide.high = outward(x.high, in_eps * kEps * std::abs(x.high));
  }
  // A subnormal operand may be read as zero.
  if (wide.low > 0 && wide.low < kSmallestNormal) wide.low = 0;
  if (wide.high < 0 && wide.high > -kSmallestNormal) wide.high = 0;
  return wide;
}

bool is_zero_of_either_sign(const Interval& x) {
  return x.low == 0 && x.high == 0 && std::signbit(x.low) != std::signbit(x.high);
}

// A power of a negative base is a number at integers only; odd and even ones differ in sign.
void add_last_integers(const Interval& x, Candidates& result) {
  const double last = std::floor(x.high);
  if (!std::isfinite(last)) return;
  if (last >= x.low) result.add(last);
  if (last - 1 >= x.low) result.add(last - 1);
}

Candidates candidates(const ir::OpInfo& op, int operand, const Interval& x) {
  Candidates result;
  result.add(x.value);
  if (is_exact(x) && !is_zero_of_either_sign(x)) return result;
  result.add(x.low);
  result.add(x.high);
  for (const ir::Turn& turn : op.turns) {
    if (turn.operand != operand) continue;
    if (turn.at_integers) {
      add_last_integers(x, result);
    } else if (x.low <= turn.at && turn.at <= x.high) {
      result.add(turn.at);
    }
  }
  return result;
}

// Least and greatest result over the candidates of all operands.
struct Image {
  double low = kInfinity, high = -kInfinity;
  int num_numbers = 0, num_nans = 0;
  void add(double y) {
    if (std::isnan(y)) {
      ++num_nans;
      return;
    }
    ++num_numbers;
    low = std::min(low, y);
    high = std::max(high, y);
  }
};

Image image_of_box(const ir::OpInfo& op, const std::array<Candidates, 3>& operands) {
  Image image;
  std::array<double, 3> x{};
  for (int i = 0; i < operands[0].num; ++i) {
    x[0] = operands[0].at[static_cast<std::size_t>(i)];
    for (int j = 0; j < std::max(operands[1].num, 1); ++j) {
      x[1] = operands[1].at[static_cast<std::size_t>(j)];
      for (int k = 0; k < std::max(operands[2].num, 1); ++k) {
        x[2] = operands[2].at[static_cast<std::size_t>(k)];
        image.add(op.reference(x.data()));
      }
    }
  }
  return image;
}

// How far a computed result may lie from `end`, which is the op's exact value at one end.
double error_at(const ir::OpInfo& op, double end, double magnitude_x0, Numerics numerics) {
  if (!std::isfinite(end)) return 0;
  double error = 0;
  // A correctly rounded op gives a float32 number exactly.
  if (op.out_eps > 1 || (op.out_eps > 0 && epifuse::round_to(end, DType::f32) != end)) {
    error = op.out_eps * kEps * std::abs(end);
    if (std::abs(end) < kSmallestNormal) error += kSmallestSubnormal;
  }
  // Inside a composed function of one operand a factor may be flushed to zero.
  if (op.arity == 1 && op.out_eps > 1) error += kSmallestNormal * (1 + magnitude_x0);
  error += ir::floor_of(op.op) * magnitude_x0;
  if (numerics == Numerics::approx) error += op.approx_err * (1 + magnitude_x0);
  return error;
}

// Rewrites and flushed subnormals change the sign of a zero, so a computed one has either.
Interval with_either_zero(Interval x) {
  if (x.low == 0) x.low = -0.0;
  if (x.high == 0) x.high = 0.0;
  return x;
}

Interval apply_select(std::span<const Interval> x) {
  const Interval& condition = x[0];
  const bool value = condition.value != 0;
  if (is_exact(condition)) return value ? x[1] : x[2];
  return hull(x[1], x[2], value ? x[1].value : x[2].value);
}

Interval apply_compare(const ir::OpInfo& op, std::span<const Interval> x, double value) {
  if (may_be_nan(x[0]) && !must_be_nan(x[0])) return {0, value, 1};
  if (may_be_nan(x[1]) && !must_be_nan(x[1])) return {0, value, 1};
  const Interval a = widen_operand(x[0], 0), b = widen_operand(x[1], 0);
  if (must_be_nan(a) || must_be_nan(b)) return exactly(value);
  const bool overlap = a.low <= b.high && b.low <= a.high;
  const bool decided = !overlap || (a.low == a.high && b.low == b.high);
  if (decided) return exactly(value);
  // lt, le, gt and ge are monotone: still certain where only an end is shared and decides nothing.
  const std::array<Candidates, 3> corners{candidates(op, 0, a), candidates(op, 1, b)};
  const Image image = image_of_box(op, corners);
  const bool is_equality = op.commutes;  // of compares eq and ne alone do
  if (!is_equality && image.low == image.high) return exactly(value);
  return {0, value, 1};
}

}  // namespace

Interval anything(double value) {
  if (std::isnan(value)) return {-kInfinity, value, kInfinity};
  return {kNaN, value, kNaN};
}

Interval undefined() { return {kInfinity, kNaN, -kInfinity}; }
bool is_undefined(const Interval& x) { return x.low == kInfinity && x.high == -kInfinity; }

bool is_exact(const Interval& x) { return x.low == x.high || must_be_nan(x); }
double radius_of(const Interval& x) {
  if (is_exact(x)) return 0;
  return std::max(x.high - x.value, x.value - x.low);
}
bool may_be_nan(const Interval& x) { return std::isnan(x.low) || std::isnan(x.value); }
bool must_be_nan(const Interval& x) { return std::isnan(x.low) && std::isnan(x.value); }

Interval round_to(const Interval& x, DType dtype) {
  if (is_undefined(x)) return x;
  return {epifuse::round_to(x.low, dtype), epifuse::round_to(x.value, dtype),
          epifuse::round_to(x.high, dtype)};
}

Interval limit_to_float32(const Interval& x) {
  const auto overflow = [](double v) {
    return std::abs(v) >= kOverflow ? std::copysign(kInfinity, v) : v;
  };
  Interval result{overflow(x.low), overflow(x.value), overflow(x.high)};
  if (result.low > 0 && result.low < kSmallestNormal) result.low = 0;
  if (result.high < 0 && result.high > -kSmallestNormal) result.high = 0;
  return with_either_zero(result);
}

Interval hull(const Interval& a, const Interval& b, double value) {
  if (is_undefined(a) || is_undefined(b)) return undefined();
  if (must_be_nan(a) && must_be_nan(b)) return a;
  if (may_be_nan(a) || may_be_nan(b)) return anything(value);
  return {std::min(a.low, b.low), value, std::max(a.high, b.high)};
}

bool accepts(const Interval& allowed, double result) {
  if (std::isnan(result)) return may_be_nan(allowed);
  if (must_be_nan(allowed)) return false;
  if (std::isnan(allowed.low) || is_undefined(allowed)) return true;
  return allowed.low <= result && result <= allowed.high;
}

double share_of_allowed(const Interval& allowed, double value, double result, DType dtype) {
  const double error = std::abs(result - value);
  if (accepts(allowed, result)) {
    const double room = result > value ? allowed.high - value : value - allowed.low;
    return std::isfinite(error) && error > 0 && room > 0 ? std::min(error / room, 1.0) : 0;
  }
  const double outside = result > allowed.high ? result - allowed.high : allowed.low - result;
  const double half_width = (allowed.high - allowed.low) / 2;
  const double ratio = 1 + outside / std::max(half_width, ulp(value, dtype));
  return std::isfinite(ratio) ? ratio : kInfinity;
}

Interval apply(const ir::OpInfo& op, std::span<const Interval> operands, Numerics numerics) {
  if (std::any_of(operands.begin(), operands.end(), is_undefined)) return undefined();
  if (op.kind == ir::OpKind::select) return apply_select(operands);
  std::array<double, 3> values{};
  bool uncertain = false;
  for (std::size_t i = 0; i < operands.size(); ++i) {
    values[i] = operands[i].value;
    uncertain = uncertain || (may_be_nan(operands[i]) && !must_be_nan(operands[i]));
  }
  const double value = op.reference(values.data());
  if (op.kind == ir::OpKind::compare) return apply_compare(op, operands, value);
  if (uncertain) return anything(value);

  std::array<Candidates, 3> points;
  double magnitude_x0 = 0;
  for (std::size_t i = 0; i < operands.size(); ++i) {
    const Interval x = widen_operand(operands[i], op.in_eps);
    points[i] = candidates(op, static_cast<int>(i), x);
    if (i == 0) magnitude_x0 = magnitude_of(x);
  }
  const Image image = image_of_box(op, points);
  if (image.num_numbers == 0) return exactly(kNaN);
  if (image.num_nans > 0) return anything(value);
  if (!std::isfinite(magnitude_x0)) magnitude_x0 = 0;
  const double below = error_at(op, image.low, magnitude_x0, numerics);
  const double above = error_at(op, image.high, magnitude_x0, numerics);
  return limit_to_float32({image.low - below, value, image.high + above});
}

}  // namespace epifuse::reference
