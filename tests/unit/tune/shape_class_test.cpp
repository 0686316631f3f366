// Which sizes share a measured choice.
#include "tune/shape_class.h"

#include <gtest/gtest.h>

namespace epifuse::tune {
namespace {

std::int64_t rows(std::int64_t m) { return shape_class({1, m, 768, 512}).m; }

TEST(ShapeClass, FewRowsShareOneUpToEachPowerOfTwo) {
  EXPECT_EQ(rows(1), 1);
  EXPECT_EQ(rows(2), 2);
  EXPECT_EQ(rows(3), 4);
  EXPECT_EQ(rows(33), 64);
  EXPECT_EQ(rows(64), 64);
}

TEST(ShapeClass, MoreShareOneUpToEachMultipleOfATile) {
  EXPECT_EQ(rows(65), 128);
  EXPECT_EQ(rows(1000), 1024);
  EXPECT_EQ(rows(1025), 1088);
  EXPECT_EQ(rows(4096), 4096);
  EXPECT_EQ(rows(4097), 4224);  // from here on a 32nd of the power of 2 below
  EXPECT_EQ(rows(16384), 16384);
}

TEST(ShapeClass, OtherSizesAreTheirOwn) {
  const codegen::GemmSizes out = shape_class({3, 100, 769, 513, 5});
  EXPECT_EQ(out.batch, 3);
  EXPECT_EQ(out.n, 769);
  EXPECT_EQ(out.k, 513);
  EXPECT_EQ(out.groups, 5);
}

TEST(ShapeClass, EachClassIsThatOfItsLargestRowsAndNeverSmaller) {
  for (std::int64_t m = 1; m < 70000; m = m * 9 / 8 + 1) {
    EXPECT_GE(rows(m), m);
    EXPECT_EQ(rows(rows(m)), rows(m)) << m;
    EXPECT_LE(rows(m), rows(m + 1)) << m;
  }
  EXPECT_EQ(rows(0), 0);
}

}  // namespace
}  // namespace epifuse::tune
