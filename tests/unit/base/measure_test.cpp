#include "base/measure.h"

#include <gtest/gtest.h>

#include "epifuse/error.h"

namespace epifuse {
namespace {

TEST(Measure, MedianIsTheMiddleSample) {
  EXPECT_EQ(median({3}), 3);
  EXPECT_EQ(median({9, 1, 4}), 4);
  EXPECT_EQ(median({8, 2, 4, 1}), 4);
  EXPECT_THROW(median({}), InternalError);
}

TEST(Measure, GeometricMeanOfRatios) {
  EXPECT_DOUBLE_EQ(geometric_mean(std::vector<double>{0.5, 2.0}), 1.0);
  EXPECT_DOUBLE_EQ(geometric_mean(std::vector<double>{2, 4, 8}), 4.0);
  EXPECT_EQ(geometric_mean({}), 1.0);
}

TEST(Measure, TimePasses) {
  const auto start = std::chrono::steady_clock::now();
  const double first = seconds_since(start);
  EXPECT_GE(first, 0);
  EXPECT_GE(seconds_since(start), first);
}

}  // namespace
}  // namespace epifuse
