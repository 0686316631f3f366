// What takes too long ends the process and is named.
#include "tests/common/time_limit.h"

#include <gtest/gtest.h>

namespace epifuse::testing {
namespace {

void take(std::chrono::milliseconds time, int count) {
  TimeLimit limit(std::chrono::seconds(1));
  for (int i = 0; i < count; ++i) {
    limit.begin("graph " + std::to_string(i));
    std::this_thread::sleep_for(time);
  }
}

TEST(TimeLimitDeathTest, NamesWhatHasNoEnd) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(take(std::chrono::seconds(20), 1), ::testing::ExitedWithCode(3),
              "graph 0: no end after 1 s");
}

TEST(TimeLimit, IsForEachThingThatBegins) { take(std::chrono::milliseconds(300), 5); }

}  // namespace
}  // namespace epifuse::testing
