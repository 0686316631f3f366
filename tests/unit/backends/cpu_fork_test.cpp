// Runs in a forked child, whose OpenMP threads are gone: right values, and no waiting for them.
#include <gtest/gtest.h>
#include <omp.h>

#include <atomic>
#include <cmath>
#include <cstdlib>
#include <string>
#include <thread>

#include "backends/cpu/threads.h"
#include "tests/common/forked.h"
#include "tests/unit/backends/cpu_harness.h"

namespace epifuse::cpu {
namespace {

using testing::run_in_child;

// Of a thread that OpenMP has done nothing for, in a child.
int num_threads_anew() { return omp_get_max_threads() == 1 ? 1 : 4; }

// One call of oneDNN, tiles, groups, and a tail alone: each shares its work in its own way.
constexpr const char* kGraphs[] = {
    "graph g(a: f32[M, K], b: f32[K, N], e: i32[G]) {\n  y = matmul a, b\n  return y\n}",
    "graph g(a: f32[M, K], b: f32[K, N], e: i32[G]) {\n  h = matmul a, b\n  y = relu h\n"
    "  return y\n}",
    "graph g(a: f32[M, K], b: f32[K, N], e: i32[G]) {\n  w = broadcast b [G, K, N]\n"
    "  y = grouped_matmul a, w, e\n  return y\n}",
    "graph g(a: f32[M, K], b: f32[K, N], e: i32[G]) {\n  y = silu a\n  return y\n}",
};

class CpuFork : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override { setenv("EPIFUSE_THREADS", "4", 1); }
  void TearDown() override { unsetenv("EPIFUSE_THREADS"); }

  std::vector<double> result() {
    HostTensor y(DType::f32, {kSize, kSize});
    program_.run({a_.bind("a"), b_.bind("b"), e_.bind("e"), y.bind("y")});
    return y.values();
  }
  bool is_right_again(const std::vector<double>& expected) {
    const std::vector<double> values = result();
    for (std::size_t i = 0; i < values.size(); ++i) {
      if (!(std::abs(values[i] - expected[i]) <= 1e-3)) return false;
    }
    return true;
  }

 private:
  static constexpr std::int64_t kSize = 512;
  CpuProgram program_{GetParam()};
  HostTensor a_ = random_tensor(DType::f32, {kSize, kSize}, 1);
  HostTensor b_ = random_tensor(DType::f32, {kSize, kSize}, 2);
  HostTensor e_ = HostTensor(DType::i32, {3}).fill({100, 101, 512});
};

TEST_P(CpuFork, ChildOfAProcessThatRan) {
  const std::vector<double> expected = result();
  EXPECT_EQ(run_in_child([&] { return is_right_again(expected); }), "");
  EXPECT_TRUE(is_right_again(expected)) << "the parent goes on";
}

TEST_P(CpuFork, ChildOfAChild) {
  const std::vector<double> expected = result();
  const auto in_child = [&] {
    return is_right_again(expected) &&
           run_in_child([&] { return is_right_again(expected); }).empty();
  };
  EXPECT_EQ(run_in_child(in_child), "");
}

TEST_P(CpuFork, NewThreadOfAChild) {
  const std::vector<double> expected = result();
  const auto in_child = [&] {
    bool is_right = false;
    std::thread([&] {
      is_right = threads_here() == num_threads_anew() && is_right_again(expected);
    }).join();
    return is_right;
  };
  EXPECT_EQ(run_in_child(in_child), "");
}

INSTANTIATE_TEST_SUITE_P(Graphs, CpuFork, ::testing::ValuesIn(kGraphs));

TEST(CpuForkThreads, AreOneOnlyWhereTheForkingThreadHadSome) {
  setenv("EPIFUSE_THREADS", "4", 1);
  const auto fork_in_new_thread = [](bool works_before) {
    std::string outcome;
    std::thread([&] {
      if (works_before) run_units(8, threads_here(), [](std::int64_t, int) {});
      outcome = run_in_child([&] {
        const int num_threads = works_before ? 1 : num_threads_anew();
        std::atomic<int> highest = 0;
        run_units(8, threads_here(), [&](std::int64_t, int worker) {
          if (worker > highest) highest = worker;
        });
        return threads_here() == num_threads && highest < num_threads;
      });
    }).join();
    return outcome;
  };
  EXPECT_EQ(fork_in_new_thread(true), "");
  EXPECT_EQ(fork_in_new_thread(false), "");
  unsetenv("EPIFUSE_THREADS");
}

TEST(CpuForkThreads, AreOneInAChildThatToldOpenMpSo) {
  setenv("EPIFUSE_THREADS", "4", 1);
  const auto in_child = [] {
    int num_told = 0;
    std::thread([&] {
      omp_set_num_threads(1);
      num_told = threads_here();
    }).join();
    return num_told == 1;
  };
  EXPECT_EQ(run_in_child(in_child), "");
  EXPECT_EQ(threads_here(), 4);
  unsetenv("EPIFUSE_THREADS");
}

}  // namespace
}  // namespace epifuse::cpu
