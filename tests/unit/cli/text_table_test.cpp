// Tables and times as the terminal shows them.
#include "cli/text_table.h"

#include <gtest/gtest.h>

#include "cli/timing.h"

namespace epifuse::cli {
namespace {

TEST(TextTable, AlignsColumns) {
  EXPECT_EQ(text_table({{"KEY", "SIZE>", "OF"}, {"a", "12 B", "x"}, {"bbbb", "1.0 KiB", ""}}),
            "KEY      SIZE  OF\n"
            "a        12 B  x\n"
            "bbbb  1.0 KiB\n");
  EXPECT_EQ(text_table({}), "");
}

TEST(SizeText, HasOneDigitAndAUnit) {
  EXPECT_EQ(size_text(0), "0 B");
  EXPECT_EQ(size_text(1023), "1023 B");
  EXPECT_EQ(size_text(48954), "47.8 KiB");
  EXPECT_EQ(size_text(std::uintmax_t{3} << 29), "1.5 GiB");
}

TEST(Comparison, IsOfRatiosWithinRounds) {
  // The second round is slow for both: the ratio does not see it.
  const Comparison found = compare_rounds({8, 80, 9, 8.5, 8.2}, {10, 100, 10, 10, 10});
  EXPECT_DOUBLE_EQ(found.ratio, 0.82);
  EXPECT_DOUBLE_EQ(found.low, 0.8);
  EXPECT_DOUBLE_EQ(found.high, 0.85);
  EXPECT_DOUBLE_EQ(found.baseline_us, 10);
  EXPECT_DOUBLE_EQ(found.us, 8.2);
  EXPECT_EQ(
      ratio_text(found),
      "ratio 0.82, 0.80 to 0.85 in the middle half of 5 rounds: fusion saves 18 % of the time");
}

TEST(Comparison, OfNoWorkIsANumber) { EXPECT_EQ(compare_rounds({0, 0}, {0, 0}).ratio, 1); }

TEST(Comparison, SaysWhatTheSpreadAllows) {
  EXPECT_EQ(ratio_text({.ratio = 0.99, .low = 0.97, .high = 1.02, .num_rounds = 30}),
            "ratio 0.99, 0.97 to 1.02 in the middle half of 30 rounds: no clear difference");
  EXPECT_EQ(
      ratio_text({.ratio = 1.1, .low = 1.05, .high = 1.2, .num_rounds = 30}),
      "ratio 1.10, 1.05 to 1.20 in the middle half of 30 rounds: fusion takes 10 % longer here");
}

}  // namespace
}  // namespace epifuse::cli
