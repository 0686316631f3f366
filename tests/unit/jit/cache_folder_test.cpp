// The folder of the cubin cache: whose it must be, what is removed from it, how much it may hold.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <set>

#include "base/file.h"
#include "environment.h"
#include "epifuse/error.h"
#include "jit/toolchain.h"

namespace epifuse::jit {
namespace {

namespace fs = std::filesystem;

const std::string kKey(64, 'a');
const std::string kOther(64, 'b');

std::set<std::string> names_in(const fs::path& folder) {
  std::set<std::string> names;
  for (const auto& entry : fs::directory_iterator(folder)) names.insert(entry.path().filename());
  return names;
}

// Makes the file look as if it was last used so long ago.
void set_age(const fs::path& path, int seconds) {
  fs::last_write_time(path, fs::file_time_type::clock::now() - std::chrono::seconds(seconds));
}

fs::path file_of(const KernelCache& cache, const std::string& key) {
  return cache.folder() / (key + ".cubin");
}

TEST(CacheFolder, ClearLeavesWhatEpifuseDidNotWrite) {
  const TemporaryFolder folder;
  const KernelCache cache(folder.path());
  cache.store(kKey, small_binary(), "ours");
  const std::set<std::string> foreign = {"mine.cubin",  kOther + ".cubin",
                                         "mine.tmp",    ".half-written.tmp",
                                         "mine.tuned",  "." + kKey + ".cubin.AbC123.tmp",
                                         "epifuse.lock"};
  for (const std::string& name : foreign) write_text(folder.path() / name, "of another program");
  fs::create_directory(folder.path() / (std::string(64, 'c') + ".cubin"));

  EXPECT_EQ(cache.clear(), 1u);
  std::set<std::string> left = foreign;
  left.insert(std::string(64, 'c') + ".cubin");
  EXPECT_EQ(names_in(folder.path()), left);
}

TEST(CacheFolder, ClearKnowsDamagedEntriesByWhatIsLeftOfThem) {
  const TemporaryFolder folder;
  const KernelCache cache(folder.path());
  cache.store(kKey, small_binary(), "first");
  std::string bytes = read_file(file_of(cache, kKey)).value();
  for (const std::size_t damaged : {std::size_t{0}, std::size_t{100}, bytes.size() - 1}) {
    std::string bad = bytes;
    bad[damaged] ^= 1;
    write_text(file_of(cache, kKey), bad);
    ASSERT_EQ(cache.list().size(), 1u);
    EXPECT_FALSE(cache.list()[0].valid);
    EXPECT_EQ(cache.clear(), 1u) << "byte " << damaged;
  }
}

TEST(CacheFolder, AFolderThatOthersCanWriteToIsNotUsed) {
  const TemporaryFolder folder;
  const KernelCache cache(folder.path());
  cache.store(kKey, small_binary(), "");
  for (const mode_t mode : {0777u, 0770u, 0702u}) {
    chmod(folder.path().c_str(), mode);
    EXPECT_FALSE(cache.load(kKey)) << mode;
    cache.store(kOther, small_binary(), "");
    EXPECT_TRUE(cache.list().empty()) << mode;
    EXPECT_EQ(cache.clear(), 0u) << mode;
    EXPECT_FALSE(recorded_toolchain(folder.path())) << mode;
  }
  chmod(folder.path().c_str(), 0755);
  EXPECT_TRUE(cache.load(kKey));
  EXPECT_EQ(names_in(folder.path()), std::set<std::string>{kKey + ".cubin"});
}

TEST(CacheFolder, WhatBelongsToAnotherUserIsNotUsed) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can give files away";
  constexpr uid_t kNobody = 65534;
  const TemporaryFolder folder;
  const KernelCache cache(folder.path());
  cache.store(kKey, small_binary(), "");
  ASSERT_EQ(chown(file_of(cache, kKey).c_str(), kNobody, kNobody), 0);
  EXPECT_FALSE(cache.load(kKey)) << "the entry is of somebody else";
  ASSERT_EQ(chown(file_of(cache, kKey).c_str(), 0, 0), 0);
  EXPECT_TRUE(cache.load(kKey));
  ASSERT_EQ(chown(folder.path().c_str(), kNobody, kNobody), 0);
  EXPECT_FALSE(cache.load(kKey)) << "the folder is of somebody else";
  ASSERT_EQ(chown(folder.path().c_str(), 0, 0), 0);
  const fs::path link = folder.path() / "link";
  fs::create_directory_symlink(folder.path(), link);
  EXPECT_TRUE(KernelCache(link).load(kKey));
  ASSERT_EQ(lchown(link.c_str(), kNobody, kNobody), 0);
  EXPECT_FALSE(KernelCache(link).load(kKey)) << "the link is of somebody else";
}

TEST(CacheFolder, ARefusedFolderIsSaidOnceWithTheReason) {
  const TemporaryFolder folder;
  chmod(folder.path().c_str(), 0777);
  testing::internal::CaptureStderr();
  const KernelCache cache(folder.path());
  for (int i = 0; i < 3; ++i) cache.load(kKey);
  cache.store(kKey, small_binary(), "");
  EXPECT_EQ(testing::internal::GetCapturedStderr(),
            "epifuse: the cache folder " + folder.path().string() +
                " is not used: it can be written by other users (mode 0777; `chmod go-w` mends "
                "it)\n");
}

TEST(CacheFolder, AFolderThatCannotBeWrittenIsSaidOnce) {
  const TemporaryFolder folder;
  write_text(folder.path() / "file", "");
  testing::internal::CaptureStderr();
  for (const std::string& key : {kKey, kOther, kKey}) {
    KernelCache(folder.path() / "file" / "below").store(key, small_binary(), "");
  }
  const std::string said = testing::internal::GetCapturedStderr();
  EXPECT_TRUE(said.starts_with("epifuse: the cache keeps nothing new: cannot make folder "))
      << said;
  EXPECT_EQ(std::count(said.begin(), said.end(), '\n'), 1) << said;
}

TEST(CacheFolder, AFolderInAnEntrysPlaceIsAMissAndIsReplaced) {
  const TemporaryFolder folder;
  const KernelCache cache(folder.path());
  fs::create_directory(file_of(cache, kKey));
  fs::create_directory(file_of(cache, kOther));
  write_text(file_of(cache, kOther) / "kept.txt", "of another program");
  EXPECT_FALSE(cache.load(kKey));
  ASSERT_EQ(cache.list().size(), 2u);
  EXPECT_FALSE(cache.list()[0].valid);
  cache.store(kKey, small_binary(), "");
  cache.store(kOther, small_binary(), "");
  EXPECT_TRUE(cache.load(kKey));
  EXPECT_TRUE(cache.load(kOther));
  EXPECT_EQ(cache.clear(), 2u);
  const std::set<std::string> left = names_in(folder.path());
  ASSERT_EQ(left.size(), 1u) << "the folder that was not empty";
  EXPECT_TRUE(fs::exists(folder.path() / *left.begin() / "kept.txt"));
}

// Each would hang or never end if it were opened and read as a file is.
TEST(CacheFolder, PipesDevicesAndLinksAreMisses) {
  const TemporaryFolder folder;
  const KernelCache cache(folder.path());
  ASSERT_EQ(mkfifo(file_of(cache, kKey).c_str(), 0600), 0);
  fs::create_symlink("/dev/zero", file_of(cache, kOther));
  ASSERT_EQ(mkfifo((folder.path() / "toolchains.tsv").c_str(), 0600), 0);
  const std::vector<KernelCache::Entry> entries = cache.list();
  ASSERT_EQ(entries.size(), 2u);
  for (const KernelCache::Entry& entry : entries) {
    EXPECT_FALSE(entry.valid);
    EXPECT_FALSE(cache.load(entry.key));
  }
  EXPECT_FALSE(recorded_toolchain(folder.path()));
  EXPECT_EQ(cache.clear(), 0u);
  cache.store(kKey, small_binary(), "");
  EXPECT_TRUE(cache.load(kKey)) << "replaced";
}

TEST(CacheFolder, AHugeFileIsNotRead) {
  const TemporaryFolder folder;
  const KernelCache cache(folder.path());
  cache.store(kKey, small_binary(), "");
  fs::resize_file(file_of(cache, kKey), std::uintmax_t{1} << 40);  // of holes
  EXPECT_FALSE(cache.load(kKey));
  ASSERT_EQ(cache.list().size(), 1u);
  EXPECT_FALSE(cache.list()[0].valid);
  EXPECT_EQ(cache.list()[0].bytes, std::uintmax_t{1} << 40);
  EXPECT_EQ(cache.clear(), 1u);
}

TEST(CacheFolder, WhatKilledWritersLeaveGoesAfterAnHour) {
  const TemporaryFolder folder;
  const KernelCache cache(folder.path());
  const std::string old = "." + kOther + ".cubin.000000.tmp",
                    empty = "." + kOther + ".cubin.111111.tmp",
                    fresh = "." + kOther + ".cubin.222222.tmp", foreign = "old.tmp";
  write_text(folder.path() / old, "epifuse cubin 1\n0123");
  write_text(folder.path() / empty, "");
  write_text(folder.path() / fresh, "epifuse cubin 1\n0123");
  write_text(folder.path() / foreign, "epifuse cubin 1\n0123");
  for (const std::string& name : {old, empty, foreign}) set_age(folder.path() / name, 2 * 3600);
  cache.store(kKey, small_binary(), "");
  const std::set<std::string> expected = {kKey + ".cubin", fresh, foreign};
  EXPECT_EQ(names_in(folder.path()), expected);
}

TEST(CacheFolder, TheKernelUsedLongestAgoGoesWhenTheCacheIsFull) {
  const TemporaryFolder folder;
  const std::string third(64, 'c'), foreign = "big.cubin";
  KernelCache(folder.path()).store(kKey, small_binary(), "");
  const auto one = fs::file_size(file_of(KernelCache(folder.path()), kKey));
  const ScopedVariable size("EPIFUSE_CACHE_SIZE", std::to_string(2 * one + one / 2));
  const KernelCache cache(folder.path());
  write_text(folder.path() / foreign, std::string(10 * one, 'x'));
  cache.store(kOther, small_binary(), "");
  set_age(file_of(cache, kKey), 900);
  set_age(file_of(cache, kOther), 600);
  EXPECT_TRUE(cache.load(kKey)) << "now it is the one that was used last";
  cache.store(third, small_binary(), "");
  const std::set<std::string> expected = {kKey + ".cubin", third + ".cubin", foreign};
  EXPECT_EQ(names_in(folder.path()), expected);
}

TEST(CacheFolder, TheSizeIsANumberOfBytesWithAUnit) {
  const TemporaryFolder folder;
  for (const char* good : {"1", "0", "500000000", "500K", "64M", "2G", "17179869183G"}) {
    const ScopedVariable size("EPIFUSE_CACHE_SIZE", good);
    EXPECT_NO_THROW(KernelCache(folder.path())) << good;
  }
  for (const char* bad : {"-1", "G", "1.5G", "2GB", "2T", "all", " 1", "1 ", "17179869184G",
                          "99999999999999999999"}) {
    const ScopedVariable size("EPIFUSE_CACHE_SIZE", bad);
    EXPECT_THROW(KernelCache(folder.path()), ArgumentError) << bad;
  }
}

}  // namespace
}  // namespace epifuse::jit
