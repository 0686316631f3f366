// Memory of tensors against every element of them, and sizes that would wrap.
#include "base/strided.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <limits>
#include <random>
#include <set>
#include <utility>
#include <vector>

#include "epifuse/error.h"
#include "epifuse/tensor.h"

namespace epifuse {
namespace {

using Vector = std::vector<std::int64_t>;
constexpr std::int64_t kHuge = std::numeric_limits<std::int64_t>::max();

// Where each element lies, in elements.
Vector places(const Vector& sizes, const Vector& strides) {
  Vector all{0};
  for (std::size_t d = 0; d < sizes.size(); ++d) {
    Vector next;
    for (const std::int64_t place : all) {
      for (std::int64_t i = 0; i < sizes[d]; ++i) next.push_back(place + i * strides[d]);
    }
    all = next;
  }
  return all;
}

std::set<std::int64_t> bytes_of(const Strided& tensor) {
  std::set<std::int64_t> bytes;
  for (const std::int64_t place : places({tensor.sizes.begin(), tensor.sizes.end()},
                                         {tensor.strides.begin(), tensor.strides.end()})) {
    for (std::int64_t b = 0; b < tensor.element_bytes; ++b) {
      bytes.insert(tensor.address + place * tensor.element_bytes + b);
    }
  }
  return bytes;
}

struct RandomTensor {
  Vector sizes, strides;
  explicit RandomTensor(std::mt19937_64& random) {
    for (std::size_t d = random() % 4; d > 0; --d) {
      sizes.push_back(static_cast<std::int64_t>(1 + random() % 5));
      strides.push_back(static_cast<std::int64_t>(random() % 25) - 6);
    }
  }
};

TEST(Strided, FoldsWhereTwoElementsMeet) {
  std::mt19937_64 random(1);
  int folded = 0;
  for (int i = 0; i < 20'000; ++i) {
    const RandomTensor tensor(random);
    const Vector all = places(tensor.sizes, tensor.strides);
    const bool expected = std::set(all.begin(), all.end()).size() != all.size();
    ASSERT_EQ(folds(tensor.sizes, tensor.strides), expected)
        << ::testing::PrintToString(std::pair(tensor.sizes, tensor.strides));
    folded += expected;
  }
  EXPECT_GT(folded, 2000);
  EXPECT_LT(folded, 18'000);
}

TEST(Strided, SharesMemoryWhereAByteIsInBoth) {
  std::mt19937_64 random(2);
  int shared = 0;
  for (int i = 0; i < 20'000; ++i) {
    const RandomTensor x(random), y(random);
    const Strided a{static_cast<std::int64_t>(random() % 100), 1 << random() % 4, x.sizes,
                    x.strides};
    const Strided b{static_cast<std::int64_t>(random() % 100), 1 << random() % 4, y.sizes,
                    y.strides};
    const std::set<std::int64_t> of_a = bytes_of(a), of_b = bytes_of(b);
    const bool expected = std::ranges::any_of(of_a, [&](auto byte) { return of_b.contains(byte); });
    ASSERT_EQ(share_memory(a, b), expected) << i;
    ASSERT_EQ(share_memory(b, a), expected) << i;
    shared += expected;
  }
  EXPECT_GT(shared, 2000);
  EXPECT_LT(shared, 18'000);
}

TEST(Strided, LargeTensorsThatLieBetweenEachOther) {
  const Vector sizes{1 << 20, 1 << 10}, strides{1 << 11, 2}, flat{1 << 30}, by_two{2};
  const Strided even{0, 4, sizes, strides}, odd{4, 4, sizes, strides};
  EXPECT_FALSE(share_memory(even, odd));
  EXPECT_FALSE(share_memory(Strided{0, 4, flat, by_two}, odd));
  EXPECT_TRUE(share_memory(Strided{8, 4, flat, by_two}, even));
  const Vector left{1 << 20, 1000}, right{1 << 20, 48}, rows{1048, 1};
  EXPECT_FALSE(share_memory({0, 2, left, rows}, {2000, 2, right, rows}));
  EXPECT_TRUE(share_memory({0, 2, left, rows}, {1998, 2, right, rows}));
}

TEST(Strided, CountsThatWouldWrap) {
  EXPECT_EQ(checked_count(Vector{}), 1);
  EXPECT_EQ(checked_count(Vector{3, 0, 5}), 15);
  EXPECT_EQ(checked_count(Vector{1 << 20, 1 << 20}), kMaxElements);
  EXPECT_EQ(checked_count(Vector{kMaxElements, 2}), std::nullopt);
  EXPECT_EQ(checked_count(Vector{std::int64_t{1} << 32, std::int64_t{1} << 32}), std::nullopt);
  EXPECT_EQ(checked_count(Vector{0, kHuge, kHuge}), std::nullopt);
  EXPECT_EQ(checked_count(Vector{3, -1}), std::nullopt);
}

TEST(Strided, ReachesThatWouldWrap) {
  const auto reach = checked_reach(Vector{3, 4, 1}, Vector{-10, 2, kHuge});
  ASSERT_TRUE(reach.has_value());
  EXPECT_EQ(reach->first, -20);
  EXPECT_EQ(reach->last, 6);
  EXPECT_FALSE(checked_reach(Vector{3}, Vector{kHuge}).has_value());
  EXPECT_FALSE(checked_reach(Vector{2}, Vector{std::numeric_limits<std::int64_t>::min()}));
  EXPECT_FALSE(checked_reach(Vector{2, 2}, Vector{kMaxElements / 2, -kMaxElements / 2}));
}

TEST(Strided, TensorViewsSayWhatIsTooLarge) {
  TensorView view;
  view.shape = {std::int64_t{1} << 32, std::int64_t{1} << 32};
  const auto error = [](const auto& action) -> std::string {
    try {
      action();
    } catch (const ArgumentError& caught) {
      return caught.what();
    }
    return "";
  };
  const std::string expected =
      "expected a tensor of sizes from 0 on and at most 2^40 elements, got [4294967296, "
      "4294967296]";
  EXPECT_EQ(error([&] { view.num_elements(); }), expected);
  EXPECT_EQ(error([&] { view.strides_or_dense(); }), expected);
  view.shape = {0, 7};
  EXPECT_EQ(view.num_elements(), 0);
  EXPECT_EQ(error([] { check_size("M", -5); }), "expected a size from 0 to 2^40 for M, got -5");
  EXPECT_EQ(error([] { check_size("M", kMaxElements); }), "");
}

TEST(JoinDims, KeepsEveryElementInOrderWithAsFewDimsAsStridesAllow) {
  Vector sizes{2, 1, 3, 4, 5}, dense{60, 7, 20, 5, 1}, gaps{80, 0, 20, 5, 1};
  const Vector dense_before = places(sizes, dense), gaps_before = places(sizes, gaps);
  join_dims(sizes, std::array{&dense, &gaps});
  EXPECT_EQ(sizes, (Vector{2, 60}));
  EXPECT_EQ(places(sizes, dense), dense_before);
  EXPECT_EQ(places(sizes, gaps), gaps_before);
}

TEST(JoinDims, LeavesTheLastOnesAndThoseThatStay) {
  Vector sizes{2, 3, 4, 5}, strides{60, 20, 5, 1};
  join_dims(sizes, std::array{&strides}, 2);
  EXPECT_EQ(sizes, (Vector{6, 4, 5}));
  Vector stays{1, 0, 0, 0};
  sizes = {1, 3, 4, 5};
  strides = {60, 20, 5, 1};
  join_dims(sizes, std::array{&strides, &stays}, 0, [&](std::size_t d) { return stays[d] != 0; });
  EXPECT_EQ(sizes, (Vector{1, 60}));
  EXPECT_EQ(strides, (Vector{60, 1}));
}

}  // namespace
}  // namespace epifuse
