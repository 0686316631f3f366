// The rule that picks one of several ways measured in two manners.
#include "tune/rank.h"

#include <gtest/gtest.h>

#include <vector>

namespace epifuse::tune {
namespace {

using Times = std::vector<double>;

TEST(LeastBehind, AWayThatWinsBothWins) {
  EXPECT_EQ(least_behind(Times{3, 1, 2}, Times{3, 1, 2}), 1u);
  EXPECT_EQ(least_behind(Times{5}, Times{5}), 0u);
}

TEST(LeastBehind, ALittleBehindInBothBeatsFarBehindInOne) {
  EXPECT_EQ(least_behind(Times{100, 102, 103}, Times{106, 102, 100}), 1u);
}

TEST(LeastBehind, ManyWaysAtATieDoNotCountAgainstOneThatIsAsFast) {
  // By ranks the second would win, as it is never worse than third. It is 9 % behind.
  EXPECT_EQ(least_behind(Times{100, 109, 109, 109, 103}, Times{100.3, 100, 100.1, 100.2, 104}), 0u);
}

TEST(LeastBehind, TiesGoToTheSmallerOtherTime) {
  EXPECT_EQ(least_behind(Times{100, 110, 110}, Times{110, 105, 100}), 0u);
}

TEST(LeastBehind, NoWayIsTakenThatIsFartherBehindThanAllowed) {
  const Times interleaved{100, 103, 102}, sustained{110, 100, 108};
  EXPECT_EQ(least_behind(interleaved, sustained), 1u);
  EXPECT_EQ(least_behind(interleaved, sustained, 1.02), 2u);
  EXPECT_EQ(least_behind(interleaved, sustained, 1), 0u);
}

TEST(Finalists, AreTheFastestAndTheOneThatAlwaysTakesPart) {
  const std::vector<double> us{5, 1, 4, 2, 3, 9};
  using Some = std::vector<std::size_t>;
  EXPECT_EQ(finalists(us, 2, 5), (Some{1, 3, 5}));
  EXPECT_EQ(finalists(us, 2, 3), (Some{1, 3}));
  EXPECT_EQ(finalists(us, 9, 0), (Some{0, 1, 2, 3, 4, 5}));
  EXPECT_EQ(finalists(us, 0, 4), (Some{4}));
  EXPECT_EQ(finalists(std::vector<double>{2, 2, 2}, 2, 0), (Some{0, 1}));
}

}  // namespace
}  // namespace epifuse::tune
