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

TEST(Utf8Text, KeepsWhatIsUtf8AndWritesOtherBytes) {
  EXPECT_EQ(utf8_text("M\xc3\xbcller \xe2\x82\xac \xf0\x9f\x98\x80", 100),
            "M\xc3\xbcller \xe2\x82\xac \xf0\x9f\x98\x80");
  EXPECT_EQ(utf8_text("a\xff"
                      "b",
                      100),
            "a\\xffb");
  EXPECT_EQ(utf8_text("\xc3", 100), "\\xc3");                    // cut off
  EXPECT_EQ(utf8_text("\xc0\x80", 100), "\\xc0\\x80");           // longer than need be
  EXPECT_EQ(utf8_text("\xed\xa0\x80", 100), "\\xed\\xa0\\x80");  // half of a pair of UTF-16
  EXPECT_EQ(utf8_text("\xf4\x90\x80\x80", 100), "\\xf4\\x90\\x80\\x80");
  EXPECT_EQ(utf8_text("", 3), "");
}

TEST(Utf8Text, IsCutBetweenCharacters) {
  EXPECT_EQ(utf8_text("abcdef", 6), "abcdef");
  EXPECT_EQ(utf8_text("abcdefg", 6), "abc...");
  EXPECT_EQ(utf8_text("ab\xe2\x82\xac\xe2\x82\xac", 7), "ab...");
  EXPECT_EQ(utf8_text(std::string(100, '\xff'), 9), "\\xff...");
}

}  // namespace
}  // namespace epifuse
