// What is measured of a framework's way, by the time there is.
#include "tune/framework_rounds.h"

#include <gtest/gtest.h>

namespace epifuse::tune {
namespace {

constexpr FrameworkWay kWay{300, 900, true, true};

TEST(FrameworkRounds, AreOfAllThatIsToBeKnownWhereTimeAllows) {
  EXPECT_EQ(what_fits(kWay, 1e9), (FrameworkRounds{true, true, 5}));
  EXPECT_EQ(what_fits(kWay, 3 * 3900), (FrameworkRounds{true, true, 2}));
}

TEST(FrameworkRounds, LeaveOutTheTailThenWhatIsSlow) {
  EXPECT_EQ(what_fits(kWay, 3 * 3900 - 1), (FrameworkRounds{false, true, 4}));
  EXPECT_EQ(what_fits(kWay, 3 * 2100), (FrameworkRounds{false, true, 2}));
  EXPECT_EQ(what_fits(kWay, 3 * 2100 - 1), (FrameworkRounds{false, false, 5}));
  EXPECT_EQ(what_fits(kWay, 3 * 600), (FrameworkRounds{false, false, 2}));
  EXPECT_EQ(what_fits(kWay, 3 * 600 - 1), std::nullopt);
}

TEST(FrameworkRounds, WithoutPaddingHaveOneProductOnly) {
  const FrameworkWay way{300, 900, false, true};
  EXPECT_EQ(what_fits(way, 3 * 1200), (FrameworkRounds{false, true, 2}));
  EXPECT_EQ(what_fits(way, 3 * 1200 - 1), std::nullopt);
}

TEST(FrameworkRounds, NeedOneRunOfWhatTakesLong) {
  const FrameworkWay way{1600, 6000, true, true};
  EXPECT_EQ(what_fits(way, 2 * 3200), (FrameworkRounds{false, false, 1}));
  EXPECT_EQ(what_fits(way, 2 * 3200 - 1), std::nullopt);
}

TEST(FrameworkRounds, NeedTheTailWhereNoRateIsKnown) {
  const FrameworkWay way{300, 900, true, false};
  EXPECT_EQ(what_fits(way, 3 * 3900), (FrameworkRounds{true, true, 2}));
  EXPECT_EQ(what_fits(way, 3 * 3900 - 1), std::nullopt);
}

}  // namespace
}  // namespace epifuse::tune
