// The narrow float formats: rounding a double to each, and their bits.
#include "base/float_types.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

namespace epifuse {
namespace {

// A binary format with an implicit leading bit and subnormals.
struct Format {
  int mantissa_bits;  // without the implicit one
  int bias;
  bool has_infinity;
  double max;  // largest finite value

  constexpr int min_exponent() const { return 1 - bias; }
};

constexpr Format kF32{23, 127, true, 0x1.fffffep127};
constexpr Format kBf16{7, 127, true, 0x1.fep127};
constexpr Format kF16{10, 15, true, 65504.0};
constexpr Format kE4m3{3, 7, false, 448.0};
constexpr Format kE5m2{2, 15, true, 57344.0};

constexpr int kDoubleBias = 1023;
constexpr int kDoubleMantissaBits = 52;

const Format& format(DType dtype) {
  switch (dtype) {
    case DType::bf16: return kBf16;
    case DType::f16: return kF16;
    case DType::e4m3: return kE4m3;
    case DType::e5m2: return kE5m2;
    default: return kF32;
  }
}

// 2^exponent, for exponents of normal doubles.
double power_of_two(int exponent) {
  return std::bit_cast<double>(static_cast<std::uint64_t>(exponent + kDoubleBias)
                               << kDoubleMantissaBits);
}

// floor(log2(|x|)) of a normal double; below -1022 for subnormal ones.
int exponent_of(double x) {
  const std::uint64_t bits = std::bit_cast<std::uint64_t>(x);
  return static_cast<int>((bits >> kDoubleMantissaBits) & 0x7ff) - kDoubleBias;
}

int quantum_exponent(double x, const Format& f) {
  return std::max(exponent_of(x), f.min_exponent()) - f.mantissa_bits;
}

double round_to_format(double x, const Format& f) {
  if (std::isnan(x)) return x;
  const double overflow = f.has_infinity ? std::numeric_limits<double>::infinity() : f.max;
  if (std::fabs(x) >= 2 * f.max) return std::copysign(overflow, x);
  // Adding 1.5 * 2^52 quanta leaves no room for fractions of one: the sum rounds to nearest even.
  const double magic = 1.5 * power_of_two(quantum_exponent(x, f) + kDoubleMantissaBits);
  const double rounded = (x + magic) - magic;
  return std::copysign(std::fabs(rounded) > f.max ? overflow : std::fabs(rounded), x);
}

// Bits of `x`, a value of the format.
std::uint32_t encode(double x, const Format& f, int num_bits) {
  const std::uint32_t sign = std::signbit(x) ? 1u << (num_bits - 1) : 0u;
  const std::uint32_t magnitude_mask = (1u << (num_bits - 1)) - 1;
  const std::uint32_t all_exponent = magnitude_mask >> f.mantissa_bits << f.mantissa_bits;
  if (std::isnan(x)) {
    const std::uint32_t quiet = 1u << (f.mantissa_bits - 1);
    return f.has_infinity ? all_exponent | quiet : magnitude_mask;
  }
  if (std::isinf(x)) return sign | all_exponent;
  const double magnitude = std::fabs(x);
  const int exponent = std::max(exponent_of(magnitude), f.min_exponent());
  const auto quanta =
      static_cast<std::uint32_t>(magnitude * power_of_two(f.mantissa_bits - exponent));
  // A subnormal has no implicit bit, so its field stays 0; else the implicit bit adds the last 1.
  const auto field = static_cast<std::uint32_t>(exponent - f.min_exponent());
  return sign | ((field << f.mantissa_bits) + quanta);
}

double decode(std::uint32_t bits, const Format& f, int num_bits) {
  const double sign = (bits >> (num_bits - 1)) != 0 ? -1.0 : 1.0;
  const std::uint32_t magnitude = bits & ((1u << (num_bits - 1)) - 1);
  const std::uint32_t mantissa = magnitude & ((1u << f.mantissa_bits) - 1);
  const int field = static_cast<int>(magnitude >> f.mantissa_bits);
  const int top_field = (1 << (num_bits - 1 - f.mantissa_bits)) - 1;
  const std::uint32_t top_mantissa = (1u << f.mantissa_bits) - 1;
  if (field == top_field && (f.has_infinity || mantissa == top_mantissa)) {
    return f.has_infinity && mantissa == 0 ? sign * std::numeric_limits<double>::infinity()
                                           : std::numeric_limits<double>::quiet_NaN();
  }
  const std::uint32_t implicit = field == 0 ? 0u : 1u << f.mantissa_bits;
  const int exponent = std::max(field, 1) - f.bias - f.mantissa_bits;
  return sign * (implicit + mantissa) * power_of_two(exponent);
}

template <typename Bits>
Bits load_bits(const void* data, std::int64_t index) {
  Bits bits;
  std::memcpy(&bits, static_cast<const char*>(data) + index * std::int64_t{sizeof(Bits)},
              sizeof(Bits));
  return bits;
}

template <typename Bits>
void store_bits(void* data, std::int64_t index, Bits bits) {
  std::memcpy(static_cast<char*>(data) + index * std::int64_t{sizeof(Bits)}, &bits, sizeof(Bits));
}

}  // namespace

double round_to(double x, DType dtype) {
  switch (dtype) {
    case DType::boolean: return x != 0 ? 1 : 0;
    case DType::i32:
    case DType::i64: return std::trunc(x);
    case DType::i8: return std::isnan(x) ? 0 : std::clamp(std::nearbyint(x), -128.0, 127.0);
    case DType::f32: return static_cast<double>(static_cast<float>(x));
    default: return round_to_format(x, format(dtype));
  }
}

double ulp(double x, DType dtype) {
  if (!is_float(dtype)) return 0;
  if (std::isnan(x)) return x;
  const Format& f = format(dtype);
  return power_of_two(quantum_exponent(std::min(std::fabs(x), f.max), f));
}

double load_element(const void* data, DType dtype, std::int64_t index) {
  switch (dtype) {
    case DType::f32: return static_cast<double>(load_bits<float>(data, index));
    case DType::bf16:
      return static_cast<double>(bf16_to_float(load_bits<std::uint16_t>(data, index)));
    case DType::f16: return decode(load_bits<std::uint16_t>(data, index), kF16, 16);
    case DType::boolean: return load_bits<std::uint8_t>(data, index) != 0 ? 1 : 0;
    case DType::i32: return static_cast<double>(load_bits<std::int32_t>(data, index));
    case DType::i64: return static_cast<double>(load_bits<std::int64_t>(data, index));
    case DType::i8: return static_cast<double>(load_bits<std::int8_t>(data, index));
    default: return decode(load_bits<std::uint8_t>(data, index), format(dtype), 8);
  }
}

void store_element(void* data, DType dtype, std::int64_t index, double x) {
  const double rounded = round_to(x, dtype);
  switch (dtype) {
    case DType::f32: return store_bits(data, index, static_cast<float>(rounded));
    case DType::bf16:
    case DType::f16:
      return store_bits(data, index,
                        static_cast<std::uint16_t>(encode(rounded, format(dtype), 16)));
    case DType::boolean: return store_bits(data, index, static_cast<std::uint8_t>(rounded));
    case DType::i32: return store_bits(data, index, static_cast<std::int32_t>(rounded));
    case DType::i64: return store_bits(data, index, static_cast<std::int64_t>(rounded));
    case DType::i8: return store_bits(data, index, static_cast<std::int8_t>(rounded));
    default:
      return store_bits(data, index, static_cast<std::uint8_t>(encode(rounded, format(dtype), 8)));
  }
}

}  // namespace epifuse
