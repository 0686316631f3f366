// The cubin cache: round trip, what counts as a miss, keys, permissions, folders.
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <set>

#include "base/file.h"
#include "base/hash.h"
#include "environment.h"
#include "jit/compile_inputs.h"

namespace epifuse::jit {
namespace {

const std::string kKey(64, 'a');

std::filesystem::path only_file(const std::filesystem::path& folder) {
  return std::filesystem::directory_iterator(folder)->path();
}

unsigned mode_of(const std::filesystem::path& path) {
  struct stat status {};
  EXPECT_EQ(stat(path.c_str(), &status), 0);
  return status.st_mode & 07777;
}

TEST(KernelCache, RoundTrip) {
  const TemporaryFolder folder;
  const KernelCache cache(folder.path() / "made" / "on" / "demand");
  EXPECT_FALSE(cache.load(kKey));
  cache.store(kKey, small_binary(), "sm_90a scale");
  const auto loaded = cache.load(kKey);
  ASSERT_TRUE(loaded);
  EXPECT_TRUE(same(*loaded, small_binary()));
  EXPECT_EQ(loaded->compile_seconds, 0);
  EXPECT_FALSE(cache.load(std::string(64, 'b')));
}

TEST(KernelCache, StoreReplaces) {
  const TemporaryFolder folder;
  const KernelCache cache(folder.path());
  cache.store(kKey, small_binary(), "first");
  Binary second = small_binary();
  second.cubin.push_back('2');
  cache.store(kKey, second, "second");
  EXPECT_TRUE(same(cache.load(kKey).value(), second));
  EXPECT_EQ(cache.list().size(), 1u);
}

TEST(KernelCache, IsPrivate) {
  const TemporaryFolder folder;
  const KernelCache cache(folder.path() / "cache");
  cache.store(kKey, small_binary(), "");
  EXPECT_EQ(mode_of(cache.folder()), 0700u);
  EXPECT_EQ(mode_of(only_file(cache.folder())), 0600u);
}

TEST(KernelCache, AnyChangedByteIsAMissAndTheNextStoreMendsIt) {
  const TemporaryFolder folder;
  const KernelCache cache(folder.path());
  cache.store(kKey, small_binary(), "scale");
  const std::filesystem::path file = only_file(folder.path());
  const std::string good = read_file(file).value();
  for (std::size_t i = 0; i < good.size(); ++i) {
    for (const char flip : {'\x01', '\x20', '\x80'}) {
      std::string bad = good;
      bad[i] = static_cast<char>(bad[i] ^ flip);
      write_text(file, bad);
      ASSERT_FALSE(cache.load(kKey)) << "byte " << i << " flipped by " << int(flip);
    }
  }
  cache.store(kKey, small_binary(), "scale");
  EXPECT_TRUE(same(cache.load(kKey).value(), small_binary()));
}

TEST(KernelCache, AnyOtherLengthIsAMiss) {
  const TemporaryFolder folder;
  const KernelCache cache(folder.path());
  cache.store(kKey, small_binary(), "scale");
  const std::filesystem::path file = only_file(folder.path());
  const std::string good = read_file(file).value();
  for (std::size_t size = 0; size < good.size(); ++size) {
    write_text(file, good.substr(0, size));
    ASSERT_FALSE(cache.load(kKey)) << "cut to " << size << " bytes";
  }
  write_text(file, good + "x");
  EXPECT_FALSE(cache.load(kKey));
  write_text(file, good);
  EXPECT_TRUE(cache.load(kKey));
}

// The checksum alone would pass a file that was copied to another key's name.
TEST(KernelCache, AnEntryUnderAnotherNameIsAMiss) {
  const TemporaryFolder folder;
  const KernelCache cache(folder.path());
  cache.store(kKey, small_binary(), "scale");
  const std::string other(64, 'b');
  std::filesystem::copy(only_file(folder.path()), folder.path() / (other + ".cubin"));
  EXPECT_FALSE(cache.load(other));
}

// A checksum that fits does not excuse fields that do not.
TEST(KernelCache, WellSummedNonsenseIsAMiss) {
  const TemporaryFolder folder;
  const KernelCache cache(folder.path());
  cache.store(kKey, small_binary(), "scale");
  const std::filesystem::path file = only_file(folder.path());
  const std::string good = read_file(file).value();
  const std::string head = good.substr(0, good.find('\n') + 1);
  const std::string own_key = "64\n" + kKey;
  for (const std::string& fields :
       {std::string("x"), std::string("99999999999999999999999\n"), own_key, own_key + "5\nab",
        own_key + "0\n" + "1\nx" + "1\n0" + "1\n0" + "0\n" + "0\n" + "1\n0",
        own_key + "0\n" + "1\n0" + "1\n0" + "1\n0" + "0\n" + "0\n" + "2\n-1" + "more"}) {
    write_text(file, head + sha256_hex(fields) + "\n" + fields);
    EXPECT_FALSE(cache.load(kKey)) << fields;
  }
}

TEST(KernelCache, WorksAsNoCacheWhereNothingCanBeWritten) {
  const TemporaryFolder folder;
  write_text(folder.path() / "file", "not a folder");
  for (const std::filesystem::path& place :
       {folder.path() / "file", folder.path() / "file" / "below", std::filesystem::path("/proc/no"),
        std::filesystem::path()}) {
    const KernelCache cache(place);
    cache.store(kKey, small_binary(), "scale");
    EXPECT_FALSE(cache.load(kKey)) << place;
    EXPECT_TRUE(cache.list().empty()) << place;
    EXPECT_EQ(cache.clear(), 0u) << place;
  }
}

TEST(KernelCache, ListsAndClears) {
  const TemporaryFolder folder;
  const KernelCache cache(folder.path());
  const std::string other(64, 'b');
  cache.store(kKey, small_binary(), "first");
  cache.store(other, small_binary(), "second");
  const std::filesystem::path damaged = folder.path() / (other + ".cubin");
  write_text(damaged, read_file(damaged).value().substr(0, 20));
  write_text(folder.path() / ("." + kKey + ".cubin.AbC123.tmp"), "epifuse cu");  // writer killed
  write_text(folder.path() / "unrelated.txt", "kept");

  const std::vector<KernelCache::Entry> entries = cache.list();
  ASSERT_EQ(entries.size(), 2u);
  EXPECT_EQ(entries[0].key, kKey);
  EXPECT_EQ(entries[0].description, "first");
  EXPECT_TRUE(entries[0].valid);
  EXPECT_EQ(entries[1].key, other);
  EXPECT_EQ(entries[1].bytes, 20u);
  EXPECT_FALSE(entries[1].valid);

  EXPECT_EQ(cache.clear(), 2u);
  EXPECT_TRUE(cache.list().empty());
  EXPECT_EQ(only_file(folder.path()).filename(), "unrelated.txt");
}

TEST(KernelCache, DefaultFolderFollowsTheSettings) {
  {
    const ScopedVariable own("EPIFUSE_CACHE", "/a/b");
    const ScopedVariable xdg("XDG_CACHE_HOME", "/xdg");
    EXPECT_EQ(KernelCache::default_folder(), "/a/b");
  }
  const ScopedVariable own("EPIFUSE_CACHE", "");
  const ScopedVariable home("HOME", "/home/someone");
  {
    const ScopedVariable xdg("XDG_CACHE_HOME", "/xdg");
    EXPECT_EQ(KernelCache::default_folder(), "/xdg/epifuse");
  }
  const ScopedVariable xdg("XDG_CACHE_HOME", "");
  EXPECT_EQ(KernelCache::default_folder(), "/home/someone/.cache/epifuse");
  const ScopedVariable no_home("HOME", "");
  EXPECT_EQ(KernelCache::default_folder(), "/tmp/epifuse-" + std::to_string(geteuid()));
}

TEST(CacheKey, ChangesWithEachIngredient) {
  const codegen::KernelSource source{"k", "text", "sm_90a"};
  const std::set<std::string> keys = {
      cache_key(source, "nvrtc 13.0"),
      cache_key(source, "nvrtc 13.1"),
      cache_key({"k", "text ", "sm_90a"}, "nvrtc 13.0"),
      cache_key({"kt", "ext", "sm_90a"}, "nvrtc 13.0"),
      cache_key({"k", "text", "sm_100a"}, "nvrtc 13.0"),
  };
  EXPECT_EQ(keys.size(), 5u);
  for (const std::string& key : keys) EXPECT_EQ(key.size(), 64u);
  EXPECT_EQ(cache_key(source, "nvrtc 13.0"), cache_key(source, "nvrtc 13.0"));
}

TEST(CacheKey, LeavesOutTheNamesInComments) {
  const auto key = [](const char* text) { return cache_key({"k", text, "sm_90a"}, "nvrtc 13.0"); };
  EXPECT_EQ(key("// ffn: x, w\nint a;  // b[n]\nint c;\n"), key("// other\nint a;\nint c;\n"));
  EXPECT_NE(key("int a;\nint c;\n"), key("int a;\nint d;\n"));
}

TEST(CacheKey, DigestCoversEveryHeader) {
  std::string all;
  std::set<std::string_view> names;
  for (const Header& header : embedded_headers()) {
    all += std::string(header.name) + "\n" + std::to_string(header.text.size()) + "\n";
    all += header.text;
    names.insert(header.name);
  }
  EXPECT_EQ(sha256_hex(all), embedded_headers_digest());
  EXPECT_EQ(names.size(), embedded_headers().size());
  EXPECT_TRUE(names.contains("kernels/abi.h"));
  EXPECT_TRUE(names.contains("cute/config.hpp"));
}

}  // namespace
}  // namespace epifuse::jit
