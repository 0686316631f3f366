// parallel_for: every index once, exceptions, nesting, concurrent callers.
#include "base/parallel.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <stdexcept>
#include <thread>
#include <vector>

#include "epifuse/error.h"
#include "tests/common/forked.h"

namespace epifuse {
namespace {

class Parallel : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override { setenv("EPIFUSE_THREADS", GetParam(), 1); }
  void TearDown() override { unsetenv("EPIFUSE_THREADS"); }
};

// The child has none of the pool's threads: its own pool takes part in the work.
TEST_P(Parallel, RunsInAForkedChild) {
  const auto num_threads_that_meet = [] {
    std::atomic<int> num_here = 0;
    const int num_expected = num_threads();
    parallel_for(num_expected, [&](std::int64_t, int) {
      ++num_here;
      while (num_here < num_expected) std::this_thread::yield();
    });
    return num_here.load();
  };
  EXPECT_EQ(num_threads_that_meet(), num_threads());
  const auto in_child = [&] { return num_threads_that_meet() == num_threads(); };
  const auto in_both = [&] { return in_child() && testing::run_in_child(in_child).empty(); };
  EXPECT_EQ(testing::run_in_child(in_both), "");
  EXPECT_EQ(num_threads_that_meet(), num_threads()) << "the parent goes on";
}

TEST_P(Parallel, RunsEveryIndexOnceOnKnownThreads) {
  for (std::int64_t count : {0, 1, 2, 3, 1000}) {
    std::vector<std::atomic<int>> calls(static_cast<std::size_t>(count));
    std::atomic<bool> good_threads = true;
    parallel_for(count, [&](std::int64_t i, int thread) {
      ++calls[static_cast<std::size_t>(i)];
      if (thread < 0 || thread >= num_threads()) good_threads = false;
    });
    for (const std::atomic<int>& n : calls) EXPECT_EQ(n, 1);
    EXPECT_TRUE(good_threads);
  }
}

TEST_P(Parallel, NoTwoBodiesShareAThreadNumberAtOnce) {
  std::vector<std::atomic<int>> busy(static_cast<std::size_t>(num_threads()));
  std::atomic<bool> shared = false;
  parallel_for(2000, [&](std::int64_t, int thread) {
    std::atomic<int>& mine = busy[static_cast<std::size_t>(thread)];
    if (++mine != 1) shared = true;
    --mine;
  });
  EXPECT_FALSE(shared);
}

TEST_P(Parallel, RethrowsAndStopsEarly) {
  constexpr std::int64_t kFar = 5, kCount = 100'000;
  std::atomic<std::int64_t> calls = 0;
  std::atomic<bool> throws = false;
  const auto run = [&] {
    parallel_for(kCount, [&](std::int64_t i, int) {
      ++calls;
      if (i == kFar) {
        throws = true;
        throw std::out_of_range("five");
      }
      // Who goes on waits for who throws, and then takes so long that all would be half a minute.
      while (i > kFar && !throws) std::this_thread::yield();
      if (i > kFar) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    });
  };
  EXPECT_THROW(run(), std::out_of_range);
  EXPECT_LT(calls, kCount);
  std::atomic<int> again = 0;
  parallel_for(10, [&](std::int64_t, int) { ++again; });
  EXPECT_EQ(again, 10);
}

TEST_P(Parallel, Nests) {
  std::atomic<int> calls = 0;
  parallel_for(8, [&](std::int64_t, int) { parallel_for(8, [&](std::int64_t, int) { ++calls; }); });
  EXPECT_EQ(calls, 64);
}

TEST_P(Parallel, ServesSeveralCallersAtOnce) {
  std::atomic<int> calls = 0;
  std::vector<std::thread> callers;
  for (int caller = 0; caller < 4; ++caller) {
    callers.emplace_back([&] {
      for (int i = 0; i < 50; ++i) parallel_for(20, [&](std::int64_t, int) { ++calls; });
    });
  }
  for (std::thread& caller : callers) caller.join();
  EXPECT_EQ(calls, 4 * 50 * 20);
}

INSTANTIATE_TEST_SUITE_P(Threads, Parallel, ::testing::Values("1", "2", "5"));

TEST(NumThreads, ReadsTheSetting) {
  setenv("EPIFUSE_THREADS", "3", 1);
  EXPECT_EQ(num_threads(), 3);
  for (const char* bad : {"0", "-1", "two", "2x", "99999"}) {
    setenv("EPIFUSE_THREADS", bad, 1);
    EXPECT_THROW(num_threads(), ArgumentError) << bad;
  }
  unsetenv("EPIFUSE_THREADS");
  EXPECT_GE(num_threads(), 1);
}

}  // namespace
}  // namespace epifuse
