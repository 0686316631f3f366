#include "base/recent_table.h"

#include <gtest/gtest.h>

#include <thread>
#include <vector>

namespace epifuse {
namespace {

bool has(const RecentTable<int>& table, int key) {
  const auto found = table.find(static_cast<std::uint64_t>(key), [&](int x) { return x == key; });
  return found != nullptr;
}

void add(RecentTable<int>& table, int key) {
  table.add(static_cast<std::uint64_t>(key), std::make_shared<const int>(key));
}

TEST(RecentTable, TheLeastRecentlyUsedMakesRoom) {
  RecentTable<int> table(3);
  for (const int key : {1, 2, 3}) add(table, key);
  EXPECT_TRUE(has(table, 1));
  add(table, 4);
  EXPECT_EQ(table.size(), 3u);
  EXPECT_FALSE(has(table, 2));
  for (const int key : {1, 3, 4}) EXPECT_TRUE(has(table, key)) << key;
  add(table, 5);  // 1 is the oldest by now
  EXPECT_FALSE(has(table, 1));
  EXPECT_TRUE(has(table, 3));
}

TEST(RecentTable, OfTwoKeysOfOneHashTheLaterStays) {
  RecentTable<int> table(3);
  table.add(7, std::make_shared<const int>(1));
  table.add(7, std::make_shared<const int>(2));
  EXPECT_EQ(table.size(), 1u);
  EXPECT_EQ(table.find(7, [](int x) { return x == 1; }), nullptr);
  EXPECT_NE(table.find(7, [](int x) { return x == 2; }), nullptr);
}

TEST(RecentTable, AnEntryOutlivesItsPlace) {
  RecentTable<int> table(1);
  add(table, 1);
  const auto kept = table.find(1, [](int) { return true; });
  add(table, 2);
  EXPECT_FALSE(has(table, 1));
  EXPECT_EQ(*kept, 1);
}

TEST(RecentTable, ThreadsFindAndAddAtOnce) {
  RecentTable<int> table(16);
  std::vector<std::thread> threads;
  std::atomic<int> wrong = 0;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 2000; ++i) {
        const int key = (i * (t + 1)) % 40;
        const auto found = table.find(static_cast<std::uint64_t>(key), [](int) { return true; });
        if (found != nullptr && *found != key) ++wrong;
        if (found == nullptr) add(table, key);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
  EXPECT_EQ(table.size(), 16u);
}

}  // namespace
}  // namespace epifuse
