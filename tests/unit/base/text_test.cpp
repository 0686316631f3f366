// Number text: shortest, exact both ways, strict.
#include "base/text.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>

namespace epifuse {
namespace {

TEST(NumberText, IsShortest) {
  EXPECT_EQ(number_text(0.1), "0.1");
  EXPECT_EQ(number_text(1), "1");
  EXPECT_EQ(number_text(-0.0), "-0");
  EXPECT_EQ(number_text(1e-5), "1e-05");
  EXPECT_EQ(number_text(-std::numeric_limits<double>::infinity()), "-inf");
  EXPECT_EQ(number_text(-std::numeric_limits<double>::quiet_NaN()), "nan");
}

TEST(NumberText, ReadsBackExactly) {
  std::mt19937_64 random(2);
  for (int i = 0; i < 20000; ++i) {
    const double x = __builtin_bit_cast(double, random());
    if (std::isnan(x)) continue;
    ASSERT_EQ(parse_number(number_text(x)), x);
  }
  EXPECT_TRUE(std::signbit(*parse_number("-0")));
  EXPECT_TRUE(std::isnan(*parse_number("nan")));
  EXPECT_EQ(parse_number("inf"), std::numeric_limits<double>::infinity());
}

TEST(NumberText, TakesNothingButNumbers) {
  for (const char* bad : {"", " 1", "1 ", "1x", "+1", "0x10", "1e999", "--1", "."}) {
    EXPECT_EQ(parse_number(bad), std::nullopt) << bad;
  }
}

}  // namespace
}  // namespace epifuse
