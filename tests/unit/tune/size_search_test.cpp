// Where winners change among sizes, found by measuring few of them.
#include "tune/size_search.h"

#include <gtest/gtest.h>

#include <functional>

namespace epifuse::tune {
namespace {

using Sizes = std::vector<std::int64_t>;
using Winner = std::function<std::string(std::int64_t)>;

// Of rows of a product.
Sizes sizes_of_rows(std::int64_t first, std::int64_t last, std::int64_t times = 1) {
  return class_sizes(first, last,
                     [&](std::int64_t size) {
                       return SizeClass{class_text({1, times * size, 768, 512}), ""};
                     })
      .at(0);
}

SizeSearch searched(std::int64_t first, std::int64_t last, const Winner& winner,
                    std::size_t most = 1000) {
  SizeSearch search(sizes_of_rows(first, last));
  for (std::size_t i = 0; i < most; ++i) {
    const auto at = search.next();
    if (!at) break;
    search.add(*at, winner(search.sizes()[*at]));
  }
  return search;
}

TEST(ClassSizes, AreTheLastOfEachClassAndTheEnd) {
  EXPECT_EQ(sizes_of_rows(1, 9), (Sizes{1, 2, 4, 8, 9}));
  EXPECT_EQ(sizes_of_rows(100, 300), (Sizes{128, 192, 256, 300}));
  EXPECT_EQ(sizes_of_rows(512, 512), (Sizes{512}));
  EXPECT_EQ(sizes_of_rows(1, 8192).size(), 7u + 63u + 32u);
}

TEST(ClassSizes, AreThoseOfTheProductNotOfTheSymbol) {
  EXPECT_EQ(sizes_of_rows(1, 9, 512), (Sizes{1, 2, 3, 4, 5, 6, 7, 8, 9}));
  EXPECT_EQ(sizes_of_rows(1, 9, 16), (Sizes{1, 2, 4, 8, 9})) << "16, 32, 64, 128, 192 rows";
}

TEST(ClassSizes, OfEachVariantThereAreSizesOfItsOwn) {
  const auto class_of = [](std::int64_t size) {
    return SizeClass{class_text({1, size, 768, 512}), size % 8 == 0 ? "aligned" : "not"};
  };
  EXPECT_EQ(class_sizes(65, 200, class_of), (std::vector<Sizes>{{127, 191, 199}, {128, 192, 200}}));
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

TEST(SizeSearch, SizesThatCannotBeMeasuredAreLeftOutWithThoseAbove) {
  SizeSearch search({64, 128, 192, 256, 320});
  ASSERT_EQ(search.next(), 4u);
  search.cut(4);
  ASSERT_EQ(search.next(), 3u);
  search.cut(3);
  EXPECT_EQ(search.sizes(), (Sizes{64, 128, 192}));
  ASSERT_EQ(search.next(), 2u) << "the end of what is left";
  search.add(2, "a");
  search.add(1, "a");
  search.add(0, "a");
  EXPECT_FALSE(search.next());
  EXPECT_EQ(search.num_left(), 0u);
  search.cut(0);
  EXPECT_TRUE(search.sizes().empty());
  EXPECT_FALSE(search.next());
}

TEST(SizeSearch, TheEndOfWhatIsLeftIsMeasuredThoughItIsNoPowerOfTwo) {
  SizeSearch search({64, 320, 448, 576});
  search.cut(*search.next());
  ASSERT_EQ(search.next(), 2u);
  search.add(2, "a");
  EXPECT_EQ(search.next(), 0u);
  search.add(0, "a");
  EXPECT_FALSE(search.next());
  EXPECT_EQ(search.source_of(1), 0u);
}

TEST(SizeSearch, OfAListTheLargestIsFirst) {
  SizeSearch search({5, 100, 700});
  EXPECT_EQ(search.last_unmeasured(), 2u);
  search.add(2, "a");
  search.add(1, "a");
  EXPECT_EQ(search.last_unmeasured(), 0u);
  search.add(0, "a");
  EXPECT_FALSE(search.last_unmeasured());
}

TEST(SizeSearch, OneSizeIsMeasuredOnce) {
  const SizeSearch search = searched(777, 777, [](std::int64_t) { return "a"; });
  EXPECT_EQ(search.num_measured(), 1u);
  EXPECT_EQ(search.source_of(0), 0u);
}

}  // namespace
}  // namespace epifuse::tune
