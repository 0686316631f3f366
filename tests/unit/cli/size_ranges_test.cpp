// Sizes of many calls as words.
#include "cli/size_ranges.h"

#include <gtest/gtest.h>

#include "epifuse/error.h"

namespace epifuse::cli {
namespace {

using Sizes = std::vector<std::int64_t>;

TEST(SizeRanges, ARangeHasItsTwoEnds) {
  const SizeRange range = parse_size_range("M=1..8192");
  EXPECT_EQ(range.symbol, "M");
  EXPECT_TRUE(range.is_range);
  EXPECT_EQ(range.sizes, (Sizes{1, 8192}));
  EXPECT_EQ(parse_size_range("M=7..7").sizes, (Sizes{7, 7}));
}

TEST(SizeRanges, AListIsInOrderAndEachSizeOnce) {
  const SizeRange range = parse_size_range("tokens=64,1,64,8");
  EXPECT_EQ(range.symbol, "tokens");
  EXPECT_FALSE(range.is_range);
  EXPECT_EQ(range.sizes, (Sizes{1, 8, 64}));
  EXPECT_EQ(parse_size_range("M=512").sizes, (Sizes{512}));
}

TEST(SizeRanges, OtherWordsAreRefused) {
  for (const char* word : {"M", "M=", "=1..2", "M=0..8", "M=1..", "M=..8", "M=8..1", "M=1..2..3",
                           "M=1,,2", "M=1,2,", "M=a", "M=-1", "M=+1", "M=1.5", "M=1...8", "3=4",
                           "M=1..2000000000000", "M=1..8,16", "M= 1"}) {
    EXPECT_THROW(parse_size_range(word), ArgumentError) << word;
  }
  try {
    parse_size_range("M=8..1");
  } catch (const ArgumentError& error) {
    EXPECT_STREQ(error.what(),
                 "--sizes: expected a symbol with sizes from 1 to 2^40, such as M=1..8192 or "
                 "M=1,8,64, got 'M=8..1'");
  }
}

}  // namespace
}  // namespace epifuse::cli
