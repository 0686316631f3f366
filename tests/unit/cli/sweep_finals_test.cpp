#include "cli/sweep_finals.h"

#include <gtest/gtest.h>

namespace epifuse::cli {
namespace {

using Places = std::vector<std::size_t>;

// What runs take in truth, by place, and which were timed at once.
struct Timer {
  std::vector<double> us;
  std::vector<Places> asked = {};

  std::vector<double> operator()(const Places& places) {
    asked.push_back(places);
    std::vector<double> out;
    for (const std::size_t place : places) out.push_back(us[place]);
    return out;
  }
};

TEST(SweepFinals, TimesTheBaselinesTheChoiceAndWhatIsNearTheBestAgain) {
  std::vector<double> us{5, 9, 12, 10, 10.7, 11, 20};
  Timer timer{{6, 8, 12.5, 10.5, 10.6, 99, 99}};
  time_finals(us, 2, {0, 1, 2}, std::ref(timer));
  EXPECT_EQ(timer.asked, std::vector<Places>({{0, 1, 2, 3, 4}}));
  EXPECT_EQ(us, std::vector<double>({6, 8, 12.5, 10.5, 10.6, 11, 20}));
}

// The best of the first pass was lucky, and so a candidate that was left out seems to be ahead.
TEST(SweepFinals, NoneThatWasTimedOnceIsTheBest) {
  std::vector<double> us{5, 9, 10, 11, 12, 13};
  Timer timer{{5, 9, 11.5, 11.9, 13, 13}};
  time_finals(us, 2, {0, 1, 2}, std::ref(timer));
  EXPECT_EQ(timer.asked, std::vector<Places>({{0, 1, 2}, {0, 1, 2, 3}}));
  EXPECT_EQ(us, std::vector<double>({5, 9, 11.5, 11.9, 12, 13}));
}

TEST(SweepFinals, TheChoiceIsTimedAgainWhereItIsAlone) {
  std::vector<double> us{5, 9, 10};
  Timer timer{{5, 9, 11}};
  time_finals(us, 2, {0, 1, 2}, std::ref(timer));
  EXPECT_EQ(us[2], 11);
}

}  // namespace
}  // namespace epifuse::cli
