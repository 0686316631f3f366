// The rule that picks one of several ways measured in two manners.
#include "tune/rank.h"

#include <gtest/gtest.h>

#include <vector>

namespace epifuse::tune {
namespace {

using Times = std::vector<double>;

TEST(BestOfWorseRanks, AWayThatWinsBothWins) {
  EXPECT_EQ(best_of_worse_ranks(Times{3, 1, 2}, Times{3, 1, 2}), 1u);
  EXPECT_EQ(best_of_worse_ranks(Times{5}, Times{5}), 0u);
}

TEST(BestOfWorseRanks, SecondInBothBeatsFirstInOne) {
  // Ranks: 0 and 2, 1 and 1, 2 and 0.
  EXPECT_EQ(best_of_worse_ranks(Times{1, 2, 3}, Times{3, 2, 1}), 1u);
}

TEST(BestOfWorseRanks, TiesGoToTheBetterOtherRank) {
  // Ranks: 0 and 2, 2 and 2, 1 and 2 (equal times share a rank), 3 and 0.
  EXPECT_EQ(best_of_worse_ranks(Times{1, 3, 2, 4}, Times{2, 2, 2, 1}), 0u);
}

TEST(BestOfWorseRanks, ThenToTheSmallerTimes) {
  // Ranks 0 and 1, 1 and 0.
  EXPECT_EQ(best_of_worse_ranks(Times{10, 11}, Times{12, 10}), 1u);
  EXPECT_EQ(best_of_worse_ranks(Times{10, 12}, Times{11, 10}), 0u);
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
