// What a terminal is shown of names and messages.
#include "base/printable.h"

#include <gtest/gtest.h>

namespace epifuse {
namespace {

TEST(Printable, LeavesOrdinaryNames) {
  EXPECT_EQ(printable(""), "");
  EXPECT_EQ(printable("out/a b=c.epi"), "out/a b=c.epi");
  EXPECT_EQ(printable("Gr\u00f6\u00dfe \u6587 \U0001F600.epi"),
            "Gr\u00f6\u00dfe \u6587 \U0001F600.epi");
}

TEST(Printable, ShowsControlCharactersAsBytes) {
  EXPECT_EQ(printable("a\x1b[31m\r\n\t\x7f"), "a\\x1b[31m\\x0d\\x0a\\x09\\x7f");
  EXPECT_EQ(printable(std::string_view("a\0b", 3)), "a\\x00b");
  EXPECT_EQ(printable("\u0085\u009b"), "\\xc2\\x85\\xc2\\x9b");  // C1: an escape sequence too
  EXPECT_EQ(printable("a\u202eb\u2028"), "a\\xe2\\x80\\xaeb\\xe2\\x80\\xa8");
  EXPECT_EQ(printable_lines("a\nb\x1b\n"), "a\nb\\x1b\n");
}

TEST(Printable, ShowsBytesThatAreNoUtf8) {
  EXPECT_EQ(printable("a\xff"
                      "b"),
            "a\\xffb");
  EXPECT_EQ(printable("\xc3"), "\\xc3");                           // cut short
  EXPECT_EQ(printable("\xc0\xaf"), "\\xc0\\xaf");                  // longer than need be
  EXPECT_EQ(printable("\xed\xa0\x80"), "\\xed\\xa0\\x80");         // a surrogate
  EXPECT_EQ(printable("\xf4\x90\x80\x80").substr(0, 4), "\\xf4");  // beyond U+10FFFF
}

TEST(Printable, CutsBetweenCharacters) {
  EXPECT_EQ(printable("abcdef", 6), "abcdef");
  EXPECT_EQ(printable("abcdefg", 6), "abc...");
  EXPECT_EQ(printable("ab\u00f6\u00f6\u00f6", 6), "ab...");
  EXPECT_EQ(printable("ab\x01\x01", 6), "ab...");
  EXPECT_EQ(printable(std::string(100000, 'x')).size(), kMaxPrintedName);
  EXPECT_EQ(printable_lines(std::string(100000, 'x')).size(), kMaxPrintedMessage);
}

}  // namespace
}  // namespace epifuse
