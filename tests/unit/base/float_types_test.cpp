// Rounding against every value of every narrow format, and known bit patterns.
#include "base/float_types.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>
#include <vector>

namespace epifuse {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

struct NarrowFormat {
  DType dtype;
  int num_bits, mantissa_bits, bias;
  std::uint32_t max_bits;  // of the largest finite value
};

const NarrowFormat kNarrow[] = {{DType::bf16, 16, 7, 127, 0x7f7f},
                                {DType::f16, 16, 10, 15, 0x7bff},
                                {DType::e4m3, 8, 3, 7, 0x7e},
                                {DType::e5m2, 8, 2, 15, 0x7b}};

// The value of finite, non-negative bits, straight from the definition of the format.
double value_of(const NarrowFormat& f, std::uint32_t bits) {
  const int field = static_cast<int>(bits >> f.mantissa_bits);
  const double mantissa = bits & ((1u << f.mantissa_bits) - 1);
  const double fraction = std::ldexp(mantissa, -f.mantissa_bits);
  return field == 0 ? std::ldexp(fraction, 1 - f.bias) : std::ldexp(1 + fraction, field - f.bias);
}

double load_bits(const NarrowFormat& f, std::uint32_t bits) {
  if (f.num_bits == 8) {
    const auto byte = static_cast<std::uint8_t>(bits);
    return load_element(&byte, f.dtype, 0);
  }
  const auto half = static_cast<std::uint16_t>(bits);
  return load_element(&half, f.dtype, 0);
}

std::uint32_t store_bits(DType dtype, double x) {
  std::uint32_t bits = 0;
  store_element(&bits, dtype, 0, x);
  return bits;
}

class Narrow : public testing::TestWithParam<NarrowFormat> {};

TEST_P(Narrow, EveryFiniteValueIsReadByDefinitionAndKept) {
  const NarrowFormat& f = GetParam();
  const std::uint32_t sign = 1u << (f.num_bits - 1);
  for (std::uint32_t bits = 0; bits <= f.max_bits; ++bits) {
    const double value = value_of(f, bits);
    ASSERT_EQ(load_bits(f, bits), value) << bits;
    ASSERT_EQ(load_bits(f, bits | sign), -value) << bits;
    ASSERT_EQ(round_to(value, f.dtype), value);
    ASSERT_EQ(store_bits(f.dtype, value), bits);
    ASSERT_EQ(store_bits(f.dtype, -value), bits | sign);
  }
}

TEST_P(Narrow, MidpointsGoToEvenAndAllElseToTheNearest) {
  const NarrowFormat& f = GetParam();
  for (std::uint32_t bits = 0; bits < f.max_bits; ++bits) {
    const double below = value_of(f, bits), above = value_of(f, bits + 1);
    const double middle = below + (above - below) / 2;
    ASSERT_EQ(round_to(middle, f.dtype), bits % 2 == 0 ? below : above) << bits;
    ASSERT_EQ(round_to(std::nextafter(middle, 0.0), f.dtype), below) << bits;
    ASSERT_EQ(round_to(std::nextafter(middle, kInf), f.dtype), above) << bits;
    ASSERT_EQ(round_to(-middle, f.dtype), bits % 2 == 0 ? -below : -above) << bits;
    ASSERT_EQ(ulp(below, f.dtype), above - below) << bits;
    ASSERT_EQ(ulp(-middle, f.dtype), above - below) << bits;
  }
}

TEST_P(Narrow, OverflowIsInfinityOrSaturates) {
  const NarrowFormat& f = GetParam();
  const double max = value_of(f, f.max_bits);
  const double half_ulp = (max - value_of(f, f.max_bits - 1)) / 2;
  const double overflow = f.dtype == DType::e4m3 ? max : kInf;
  EXPECT_EQ(round_to(std::nextafter(max + half_ulp, 0.0), f.dtype), max);
  for (double x : {max + half_ulp, max * 1.5, max * 2, max * 4, 1e300, kInf}) {
    EXPECT_EQ(round_to(x, f.dtype), overflow) << x;
    EXPECT_EQ(round_to(-x, f.dtype), -overflow) << x;
    EXPECT_EQ(load_bits(f, store_bits(f.dtype, x)), overflow) << x;
  }
  EXPECT_TRUE(std::isnan(round_to(kNan, f.dtype)));
  EXPECT_TRUE(std::isnan(load_bits(f, store_bits(f.dtype, kNan))));
  EXPECT_EQ(ulp(kInf, f.dtype), 2 * half_ulp);
  EXPECT_TRUE(std::isnan(ulp(kNan, f.dtype)));
}

TEST_P(Narrow, ZeroKeepsItsSignAndTinyValuesVanish) {
  const NarrowFormat& f = GetParam();
  EXPECT_TRUE(std::signbit(round_to(-0.0, f.dtype)));
  EXPECT_FALSE(std::signbit(round_to(0.0, f.dtype)));
  EXPECT_EQ(round_to(-1e-300, f.dtype), 0);
  EXPECT_TRUE(std::signbit(round_to(-1e-300, f.dtype)));
  EXPECT_EQ(round_to(std::numeric_limits<double>::denorm_min(), f.dtype), 0);
}

INSTANTIATE_TEST_SUITE_P(Formats, Narrow, testing::ValuesIn(kNarrow), [](const auto& param_info) {
  return std::string(name(param_info.param.dtype));
});

TEST(FloatTypes, KnownBits) {
  struct {
    DType dtype;
    double value;
    std::uint32_t bits;
  } const rows[] = {
      {DType::f32, 1.0, 0x3f800000}, {DType::f32, 0.1, 0x3dcccccd}, {DType::f32, -kInf, 0xff800000},
      {DType::f32, 1e-45, 1},        {DType::bf16, 1.0, 0x3f80},    {DType::bf16, 0.1, 0x3dcd},
      {DType::bf16, -2.5, 0xc020},   {DType::bf16, kInf, 0x7f80},   {DType::bf16, kNan, 0x7fc0},
      {DType::f16, 1.0, 0x3c00},     {DType::f16, 0.1, 0x2e66},     {DType::f16, 65504, 0x7bff},
      {DType::f16, 65520, 0x7c00},   {DType::f16, 0x1p-24, 0x0001}, {DType::f16, kNan, 0x7e00},
      {DType::e4m3, 1.0, 0x38},      {DType::e4m3, 448, 0x7e},      {DType::e4m3, -1e9, 0xfe},
      {DType::e4m3, kNan, 0x7f},     {DType::e4m3, 0x1p-9, 0x01},   {DType::e4m3, 0.1, 0x1d},
      {DType::e5m2, 1.0, 0x3c},      {DType::e5m2, 57344, 0x7b},    {DType::e5m2, 1e9, 0x7c},
      {DType::e5m2, kNan, 0x7e},     {DType::e5m2, 0x1p-16, 0x01},  {DType::boolean, 1, 1},
      {DType::boolean, -3.5, 1},     {DType::boolean, 0, 0},        {DType::i8, -1, 0xff},
      {DType::i8, 126.5, 126},       {DType::i8, 1e9, 127},         {DType::i8, -kInf, 0x80},
      {DType::i8, kNan, 0},
  };
  for (const auto& row : rows) {
    EXPECT_EQ(store_bits(row.dtype, row.value), row.bits) << name(row.dtype) << " " << row.value;
  }
}

TEST(FloatTypes, SpecialBitsAreRead) {
  EXPECT_TRUE(std::isnan(load_bits(kNarrow[1], 0x7c01)));
  EXPECT_EQ(load_bits(kNarrow[1], 0xfc00), -kInf);
  EXPECT_TRUE(std::isnan(load_bits(kNarrow[2], 0x7f)));
  EXPECT_TRUE(std::isnan(load_bits(kNarrow[2], 0xff)));
  EXPECT_TRUE(std::isnan(load_bits(kNarrow[3], 0x7d)));
  EXPECT_EQ(load_bits(kNarrow[3], 0x7c), kInf);
}

TEST(FloatTypes, RoundsOnceAndNotThroughFloat) {
  // Through f32 this would become 1 + 2^-8, a tie, and then 1.
  EXPECT_EQ(round_to(1 + 0x1p-8 + 0x1p-40, DType::bf16), 1 + 0x1p-7);
  EXPECT_EQ(round_to(1 + 0x1p-11 + 0x1p-40, DType::f16), 1 + 0x1p-10);
}

TEST(FloatTypes, F32IsTheConversionOfTheLanguage) {
  std::mt19937_64 random(1);
  for (int i = 0; i < 100000; ++i) {
    const double x = __builtin_bit_cast(double, random());
    if (std::isnan(x)) continue;
    ASSERT_EQ(round_to(x, DType::f32), static_cast<double>(static_cast<float>(x)));
  }
  for (float x : {0.0f, 1e-45f, 1.17549435e-38f, 1.0f, 0.1f, 3e38f}) {
    const double next = static_cast<double>(std::nextafterf(x, 3.4e38f));
    EXPECT_EQ(ulp(static_cast<double>(x), DType::f32), next - static_cast<double>(x)) << x;
  }
}

TEST(FloatTypes, ElementsAreIndexed) {
  std::vector<std::uint16_t> memory(4, 0);
  store_element(memory.data(), DType::f16, 2, 1.0);
  EXPECT_EQ(memory, (std::vector<std::uint16_t>{0, 0, 0x3c00, 0}));
  EXPECT_EQ(load_element(memory.data(), DType::f16, 2), 1.0);
  std::vector<std::uint8_t> flags = {0, 7, 0};
  EXPECT_EQ(load_element(flags.data(), DType::boolean, 1), 1.0);
}

}  // namespace
}  // namespace epifuse
