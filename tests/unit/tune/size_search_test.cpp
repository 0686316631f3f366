// Where winners change among sizes, found by measuring few of them.
#include "tune/size_search.h"

#include <gtest/gtest.h>

#include <functional>

namespace epifuse::tune {
namespace {

using Winner = std::function<std::string(std::int64_t)>;

SizeSearch searched(std::int64_t first, std::int64_t last, const Winner& winner,
                    std::size_t most = 1000) {
  SizeSearch search(class_sizes(first, last));
  for (std::size_t i = 0; i < most; ++i) {
    const auto at = search.next();
    if (!at) break;
    search.add(*at, winner(search.sizes()[*at]));
  }
  return search;
}

TEST(ClassSizes, AreTheLastOfEachClassAndTheEnd) {
  EXPECT_EQ(class_sizes(1, 9), (std::vector<std::int64_t>{1, 2, 4, 8, 9}));
  EXPECT_EQ(class_sizes(100, 300), (std::vector<std::int64_t>{128, 192, 256, 300}));
  EXPECT_EQ(class_sizes(512, 512), (std::vector<std::int64_t>{512}));
  EXPECT_EQ(class_sizes(1, 8192).size(), 7u + 63u + 32u);
}

TEST(SizeSearch, OneWinnerTakesThePowersOfTwoAndTheHalvesAlone) {
  const SizeSearch search = searched(1, 8192, [](std::int64_t) { return "a"; });
  EXPECT_EQ(search.num_measured(), 20u) << "1 to 8192, and 192 to 6144";
  for (std::size_t i = 0; i < search.sizes().size(); ++i) EXPECT_TRUE(search.source_of(i)) << i;
  EXPECT_EQ(search.num_left(), 0u);
}

TEST(SizeSearch, AChangeIsFoundToTheClass) {
  const Winner winner = [](std::int64_t m) { return m <= 2688 ? "a" : "b"; };
  const SizeSearch search = searched(1, 8192, winner);
  EXPECT_LE(search.num_measured(), 24u);
  for (std::size_t i = 0; i < search.sizes().size(); ++i) {
    const auto source = search.source_of(i);
    ASSERT_TRUE(source) << search.sizes()[i];
    EXPECT_EQ(winner(search.sizes()[*source]), winner(search.sizes()[i])) << search.sizes()[i];
  }
}

TEST(SizeSearch, WhereTheTimeIsOverWhatIsBetweenDifferentWinnersIsNotKnown) {
  const Winner winner = [](std::int64_t m) { return m <= 2688 ? "a" : "b"; };
  const SizeSearch search = searched(1, 8192, winner, 20);
  EXPECT_GT(search.num_left(), 0u);
  std::size_t unknown = 0;
  for (std::size_t i = 0; i < search.sizes().size(); ++i) unknown += search.source_of(i) ? 0 : 1;
  EXPECT_EQ(unknown, 15u) << "2048 to 3072";
}

TEST(SizeSearch, ThatWinnersChangeEverywhereMeasuresEverySize) {
  const SizeSearch search = searched(1, 1024, [](std::int64_t m) { return std::to_string(m); });
  EXPECT_EQ(search.num_measured(), search.sizes().size());
}

TEST(SizeSearch, OneSizeIsMeasuredOnce) {
  const SizeSearch search = searched(777, 777, [](std::int64_t) { return "a"; });
  EXPECT_EQ(search.num_measured(), 1u);
  EXPECT_EQ(search.source_of(0), 0u);
}

}  // namespace
}  // namespace epifuse::tune
