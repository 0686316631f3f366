// The cubin cache under many threads and processes, some of them killed.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <thread>

#include "environment.h"

namespace epifuse::jit {
namespace {

constexpr int kNumKeys = 3;

std::string key_of(int i) { return std::string(63, '0') + static_cast<char>('a' + i); }

// Entries of one key differ in length from writer to writer, as no two real ones do: torn files
// show.
Binary binary_of(int key, int writer) {
  Binary binary = small_binary();
  binary.registers = key;
  binary.cubin.assign(20000 + 5000 * static_cast<std::size_t>(writer), static_cast<char>(writer));
  return binary;
}

bool from_a_writer(const Binary& binary, int key) {
  const int writer = binary.cubin.empty() ? -1 : binary.cubin.front();
  return writer >= 0 && same(binary, binary_of(key, writer));
}

// Stores and loads every key in turn; false when a load saw what no writer wrote.
bool work(const std::filesystem::path& folder, int writer, int rounds) {
  const KernelCache cache(folder);
  for (int round = 0; round < rounds; ++round) {
    const int key = round % kNumKeys;
    cache.store(key_of(key), binary_of(key, writer), "concurrent");
    const auto loaded = cache.load(key_of(key));
    if (!loaded || !from_a_writer(*loaded, key)) return false;
  }
  return true;
}

TEST(KernelCacheConcurrency, Threads) {
  const TemporaryFolder folder;
  std::atomic<int> num_good = 0;
  std::vector<std::thread> threads;
  for (int writer = 0; writer < 6; ++writer) {
    threads.emplace_back([&, writer] { num_good += work(folder.path(), writer, 30); });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(num_good, 6);
  EXPECT_EQ(KernelCache(folder.path()).list().size(), static_cast<std::size_t>(kNumKeys));
}

pid_t start_writer(const std::filesystem::path& folder, int writer, int rounds) {
  const pid_t child = fork();
  if (child == 0) _exit(work(folder, writer, rounds) ? 0 : 1);
  return child;
}

TEST(KernelCacheConcurrency, Processes) {
  const TemporaryFolder folder;
  std::vector<pid_t> children;
  for (int writer = 0; writer < 4; ++writer) {
    children.push_back(start_writer(folder.path(), writer, 30));
  }
  for (const pid_t child : children) {
    int status = -1;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
  }
}

TEST(KernelCacheConcurrency, WritersKilledAtAnyMomentLeaveOnlyWholeEntries) {
  const TemporaryFolder folder;
  const KernelCache cache(folder.path());
  for (int i = 0; i < 20; ++i) {
    const pid_t child = start_writer(folder.path(), i % 4, 1000000);
    std::this_thread::sleep_for(std::chrono::microseconds(3000 + 1700 * i));
    kill(child, SIGKILL);
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFSIGNALED(status)) << "the writer gave up: it loaded a torn entry";
    for (const KernelCache::Entry& entry : cache.list()) EXPECT_TRUE(entry.valid) << entry.key;
  }
  EXPECT_TRUE(work(folder.path(), 1, kNumKeys));
  cache.clear();
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
}

}  // namespace
}  // namespace epifuse::jit
