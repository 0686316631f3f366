// Locks under which processes compile and measure: who gets them, when they are free again, what
// they save.
#include "jit/key_lock.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "environment.h"

namespace epifuse::jit {
namespace {

using State = KeyLock::State;

const std::string kKey(64, 'a');

TEST(KeyLock, HasOneHolderForEachKey) {
  const TemporaryFolder folder;
  {
    const KeyLock first(folder.path(), kKey);
    EXPECT_EQ(first.state(), State::held);
    EXPECT_EQ(KeyLock(folder.path(), kKey).state(), State::busy);
    EXPECT_EQ(KeyLock(folder.path(), std::string(64, 'b')).state(), State::held);
  }
  EXPECT_EQ(KeyLock(folder.path(), kKey).state(), State::held);
}

TEST(KeyLock, WaitsNoLongerThanItIsTold) {
  const TemporaryFolder folder;
  const KeyLock holder(folder.path(), kKey);
  const auto start = std::chrono::steady_clock::now();
  EXPECT_EQ(KeyLock(folder.path(), kKey, std::chrono::milliseconds(60)).state(), State::busy);
  EXPECT_GE(std::chrono::steady_clock::now() - start, std::chrono::milliseconds(60));
}

TEST(KeyLock, IsFreeWhenItsHolderIsKilled) {
  const TemporaryFolder folder;
  int ready[2];
  ASSERT_EQ(pipe(ready), 0);
  const pid_t child = fork();
  if (child == 0) {
    const KeyLock lock(folder.path(), kKey);
    const char held = lock.state() == State::held ? 'y' : 'n';
    (void)!write(ready[1], &held, 1);
    while (true) pause();
  }
  char held = 0;
  ASSERT_EQ(read(ready[0], &held, 1), 1);
  EXPECT_EQ(held, 'y');
  EXPECT_EQ(KeyLock(folder.path(), kKey).state(), State::busy);
  kill(child, SIGKILL);
  ASSERT_EQ(waitpid(child, nullptr, 0), child);
  EXPECT_EQ(KeyLock(folder.path(), kKey).state(), State::held);
  close(ready[0]);
  close(ready[1]);
}

TEST(KeyLock, IsUnavailableWhereNothingCanBeWritten) {
  for (const char* folder : {"", "/proc/no/such/folder"}) {
    EXPECT_EQ(KeyLock(folder, kKey).state(), State::unavailable) << folder;
  }
}

TEST(KeyLock, ClearRemovesItsFile) {
  const TemporaryFolder folder;
  const KeyLock lock(folder.path(), kKey);
  EXPECT_FALSE(std::filesystem::is_empty(folder.path()));
  KernelCache(folder.path()).clear();
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
}

// Each tells by its exit status how many kernels it compiled, 100 when it got a wrong one.
pid_t start_compiler(const std::filesystem::path& folder) {
  const pid_t child = fork();
  if (child != 0) return child;
  Jit jit((KernelCache(folder)));
  const codegen::KernelSource source = small_source("7.0f");
  const bool good = !jit.get({&source, 1})[0]->cubin.empty();
  _exit(good ? static_cast<int>(jit.num_compiled()) : 100);
}

TEST(KeyLock, SixteenProcessesCompileAKernelOnce) {
  const TemporaryFolder folder;
  std::vector<pid_t> children;
  for (int i = 0; i < 16; ++i) children.push_back(start_compiler(folder.path()));
  int num_compiled = 0;
  for (const pid_t child : children) {
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFEXITED(status));
    num_compiled += WEXITSTATUS(status);
  }
  EXPECT_EQ(num_compiled, 1);
}

}  // namespace
}  // namespace epifuse::jit
