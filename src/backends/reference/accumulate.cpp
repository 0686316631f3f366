// Sums of products and the bound on their float32 accumulation (derived in docs/numerics.md).
#include "backends/reference/accumulate.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

// The inner loops are compiled twice where the loader can choose by the processor.
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && \
    !defined(__SANITIZE_ADDRESS__)
#define EPIFUSE_WIDE_VECTORS __attribute__((target_clones("default", "avx2")))
#else
#define EPIFUSE_WIDE_VECTORS
#endif

namespace epifuse::reference {
namespace {

constexpr double kEps = 0x1p-24;
constexpr double kSmallestNormal = 0x1p-126;
constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

// Partial sums of any order stay within the range of the walk plus this many standard deviations.
constexpr double kOrderDeviations = 2;
// Errors of different operand elements add up like this many standard deviations of independent
// ones, on top of one bias common to all.
constexpr double kSpreadDeviations = 4;

// Of a product of elements with block scales: of the scales' product and of the sum with it, or of
// each element with its scale and of the two.
constexpr double kRoundingsOfScales = 3;

// fp8 tensor cores: what each product is cut off at, relative to the largest addend.
constexpr double kShortCut = 0x1p-13;

// A vector type of GCC and clang.
constexpr std::size_t kHalf = kLanes / 2;
using Half = double __attribute__((vector_size(kHalf * sizeof(double))));

inline void load_halves(const Lanes& lanes, Half& first, Half& second) {
  std::memcpy(&first, lanes.data(), sizeof(first));
  std::memcpy(&second, lanes.data() + kHalf, sizeof(second));
}
inline void store_halves(const Half& first, const Half& second, Lanes& lanes) {
  std::memcpy(lanes.data(), &first, sizeof(first));
  std::memcpy(lanes.data() + kHalf, &second, sizeof(second));
}

double spread_bound(const Spread& spread, std::size_t lane) {
  const double bias_a = std::max(std::abs(spread.shift_a[lane]), std::abs(spread.scale_a[lane]));
  const double bias_b = std::max(std::abs(spread.shift_b[lane]), std::abs(spread.scale_b[lane]));
  const double likely = bias_a + bias_b + kSpreadDeviations * std::sqrt(spread.squares[lane]);
  return spread.conspires ? spread.linear[lane] : std::min(spread.linear[lane], likely);
}

void close_window(ShortSums& s) {
  for (std::size_t j = 0; j < kLanes; ++j) {
    const double range = s.highest[j] - s.lowest[j];
    s.ranges[j] += range;
    s.biased[j] += range * s.signs[j];
    s.squares[j] += range * range;
  }
  s.walk = s.lowest = s.highest = s.signs = {};
  s.filled = 0;
}

}  // namespace

EPIFUSE_WIDE_VECTORS
void accumulate(const double* a, const double* b, std::int64_t count, Sums& sums) {
  // Two halves side by side: one alone waits for its additions. Vectors by name, so that the sums
  // surely stay in registers.
  Half value0, value1, lowest0, lowest1, highest0, highest1, squares0, squares1;
  load_halves(sums.value, value0, value1);
  load_halves(sums.lowest, lowest0, lowest1);
  load_halves(sums.highest, highest0, highest1);
  load_halves(sums.squares, squares0, squares1);
  for (std::int64_t k = 0; k < count; ++k) {
    Half product0, product1;
    std::memcpy(&product0, b + k * kLanes, sizeof(product0));
    std::memcpy(&product1, b + k * kLanes + kHalf, sizeof(product1));
    product0 *= a[k];
    product1 *= a[k];
    value0 += product0;
    value1 += product1;
    lowest0 = value0 < lowest0 ? value0 : lowest0;
    lowest1 = value1 < lowest1 ? value1 : lowest1;
    highest0 = value0 > highest0 ? value0 : highest0;
    highest1 = value1 > highest1 ? value1 : highest1;
    squares0 += product0 * product0;
    squares1 += product1 * product1;
  }
  store_halves(value0, value1, sums.value);
  store_halves(lowest0, lowest1, sums.lowest);
  store_halves(highest0, highest1, sums.highest);
  store_halves(squares0, squares1, sums.squares);
}

EPIFUSE_WIDE_VECTORS
void accumulate_spread(const double* a, const double* a_radius, const double* b,
                       const double* b_radius, std::int64_t count, Spread& spread) {
  Spread s = spread;
  for (std::int64_t k = 0; k < count; ++k) {
    const double sign_a = a[k] < 0 ? -1 : 1;
    for (std::size_t j = 0; j < kLanes; ++j) {
      const double bj = b[k * kLanes + static_cast<std::int64_t>(j)];
      const double rb = b_radius[k * kLanes + static_cast<std::int64_t>(j)];
      const double change = std::abs(a[k]) * rb + a_radius[k] * (std::abs(bj) + rb);
      s.linear[j] += change;
      s.squares[j] += change * change;
      s.shift_a[j] += a_radius[k] * bj;
      s.scale_a[j] += sign_a * a_radius[k] * bj;
      s.shift_b[j] += a[k] * rb;
      s.scale_b[j] += a[k] * (bj < 0 ? -rb : rb);
    }
  }
  spread = s;
}

EPIFUSE_WIDE_VECTORS
void accumulate_short(const double* a, const double* b, std::int64_t count, ShortSums& sums) {
  ShortSums s = sums;
  for (std::int64_t k = 0; k < count; ++k) {
    for (std::size_t j = 0; j < kLanes; ++j) {
      const double product = a[k] * b[k * kLanes + static_cast<std::int64_t>(j)];
      s.walk[j] += product;
      s.lowest[j] = std::min(s.lowest[j], s.walk[j]);
      s.highest[j] = std::max(s.highest[j], s.walk[j]);
      s.signs[j] += (product > 0 ? 1.0 : 0.0) - (product < 0 ? 1.0 : 0.0);
      s.sizes[j] += std::abs(product);
    }
    if (++s.filled == s.window) close_window(s);
  }
  sums = s;
}

double short_sum_error(ShortSums sums, std::size_t lane) {
  if (sums.filled > 0) close_window(sums);
  const auto in_window = static_cast<double>(sums.window);
  const double steps = std::ceil(in_window / sums.step);
  const double cuts = 2 * steps * kShortCut;  // of the accumulator, relative
  if (cuts >= 0.5) return kInfinity;
  const double cut = kShortCut / (1 - cuts);
  const double likely =
      std::abs(sums.biased[lane]) + kSpreadDeviations * std::sqrt(in_window * sums.squares[lane]);
  const double of_products = std::min(in_window * sums.ranges[lane], likely);
  return 2 * steps * cut * sums.ranges[lane] + std::min(sums.sizes[lane], cut * of_products);
}

double scaling_error(const Sums& sums, std::size_t lane, std::int64_t num_terms) {
  constexpr double kLargestProduct = 0x1p32;  // of two elements of 8 bits
  const double n = static_cast<double>(num_terms);
  return kRoundingsOfScales * kEps * std::sqrt(n * sums.squares[lane]) +
         n * kSmallestNormal * kLargestProduct;
}

Interval bounded_sum(const Sums& sums, const Spread* spread, std::size_t lane,
                     std::int64_t num_terms, double more) {
  const double value = sums.value[lane];
  const double deviation = std::sqrt(sums.squares[lane]);
  const double n = static_cast<double>(num_terms);
  const double partial =
      sums.highest[lane] - sums.lowest[lane] + (num_terms > 1 ? kOrderDeviations * deviation : 0);
  const double gamma = n * kEps / (1 - n * kEps);
  double error = gamma * partial + kEps * std::sqrt(n) * deviation + n * kSmallestNormal;
  if (num_terms == 0) error = 0;
  error += more;
  if (spread != nullptr) error += spread_bound(*spread, lane);
  // Partial sums that may leave float32's range can become infinities of either sign, or NaN.
  if (partial + error > static_cast<double>(std::numeric_limits<float>::max())) {
    return anything(value);
  }
  return limit_to_float32({value - error, value, value + error});
}

Interval integer_sum(const Sums& sums, std::size_t lane) {
  const double value = sums.value[lane], error = kEps * std::abs(value);
  return {value - error, value, value + error};
}

bool is_bounded(const Sums& sums, const Spread* spread, std::size_t lane) {
  return std::isfinite(sums.squares[lane]) && std::isfinite(sums.value[lane]) &&
         (spread == nullptr || std::isfinite(spread->squares[lane]));
}

void UnboundedSum::add_finite(double value, double largest) {
  value_ += value;
  largest_ += largest;
}

void UnboundedSum::add(const Interval& term) {
  const double largest = magnitude_of(term);
  if (std::isfinite(largest)) return add_finite(term.value, largest);
  value_ += term.value;
  if (must_be_nan(term)) {
    certain_nan_ = true;
  } else if (may_be_nan(term)) {
    uncertain_ = true;
  } else {
    certain_inf_[0] = certain_inf_[0] || term.high == -kInfinity;
    certain_inf_[1] = certain_inf_[1] || term.low == kInfinity;
    possible_inf_[0] = possible_inf_[0] || term.low == -kInfinity;
    possible_inf_[1] = possible_inf_[1] || term.high == kInfinity;
  }
}

Interval UnboundedSum::result() const {
  if (certain_nan_ || (certain_inf_[0] && certain_inf_[1])) return exactly(kNaN);
  // Finite terms alone may become an infinity of the other sign first, or not.
  if (largest_ > static_cast<double>(std::numeric_limits<float>::max())) return anything(value_);
  if (!uncertain_ && certain_inf_[0] && !possible_inf_[1]) return exactly(-kInfinity);
  if (!uncertain_ && certain_inf_[1] && !possible_inf_[0]) return exactly(kInfinity);
  return anything(value_);
}

}  // namespace epifuse::reference
