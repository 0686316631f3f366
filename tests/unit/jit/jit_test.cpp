// The road of one process: memory, disk, NVRTC; and that a warm start needs no compiler.
#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "base/file.h"
#include "environment.h"
#include "epifuse/error.h"
#include "jit/toolchain.h"

namespace epifuse::jit {
namespace {

std::vector<codegen::KernelSource> three_sources() {
  return {small_source("2.0f"), small_source("3.0f"), small_source("4.0f")};
}

// The row of a toolchain record for an NVRTC at `path`.
std::string record_row(const std::filesystem::path& path, const std::string& toolchain) {
  const auto time = std::filesystem::last_write_time(path).time_since_epoch().count();
  return path.string() + "\t" + path.string() + "\t" +
         std::to_string(std::filesystem::file_size(path)) + "@" + std::to_string(time) + "\t" +
         toolchain + "\n";
}

TEST(Jit, CompilesInOrderAndRemembers) {
  const TemporaryFolder folder;
  Jit jit((KernelCache(folder.path())));
  const auto binaries = jit.get(three_sources());
  ASSERT_EQ(binaries.size(), 3u);
  for (const auto& binary : binaries) EXPECT_GT(binary->compile_seconds, 0);
  EXPECT_NE(binaries[0]->cubin, binaries[1]->cubin);
  const auto nvrtc = Nvrtc::open();
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(binaries[i]->cubin, nvrtc->compile(three_sources()[i]).cubin);
  }
  EXPECT_EQ(jit.get(three_sources()), binaries) << "the second time the same objects come";
  EXPECT_EQ(jit.cache().list().size(), 3u);
  EXPECT_EQ(jit.cache().list()[0].description.substr(0, 18), "sm_90a scale: y = ");
  EXPECT_TRUE(jit.get({}).empty());
}

TEST(Jit, WhatIsCompiledIsFoundHereAndOnDiskAndNothingIsCompiledForIt) {
  const TemporaryFolder folder;
  Jit first((KernelCache(folder.path())));
  EXPECT_EQ(first.find(small_source("2.0f")), nullptr);
  EXPECT_EQ(first.num_compiled(), 0);
  const std::vector<codegen::KernelSource> sources = {small_source("2.0f")};
  const auto binaries = first.get(sources);
  EXPECT_EQ(first.find(sources[0]), binaries[0]);
  Jit second((KernelCache(folder.path())));
  const auto found = second.find(sources[0]);
  ASSERT_NE(found, nullptr);
  EXPECT_EQ(found->cubin, binaries[0]->cubin);
  EXPECT_EQ(second.num_compiled(), 0);
}

TEST(Jit, OneSourceTwiceInACallIsOneCompilation) {
  const TemporaryFolder folder;
  Jit jit((KernelCache(folder.path())));
  const std::vector<codegen::KernelSource> twice = {small_source("2.0f"), small_source("2.0f")};
  const auto binaries = jit.get(twice);
  EXPECT_EQ(binaries[0], binaries[1]);
}

TEST(Jit, EachKeyIsCompiledOnceUnderManyThreads) {
  const TemporaryFolder folder;
  Jit jit((KernelCache(folder.path())));
  std::vector<std::vector<std::shared_ptr<const Binary>>> results(8);
  std::vector<std::thread> threads;
  for (std::size_t t = 0; t < results.size(); ++t) {
    threads.emplace_back([&, t] {
      std::vector<codegen::KernelSource> sources = three_sources();
      if (t % 2 == 1) std::swap(sources[0], sources[2]);
      results[t] = jit.get(sources);
      if (t % 2 == 1) std::swap(results[t][0], results[t][2]);
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const auto& result : results) EXPECT_EQ(result, results[0]);  // the same objects
  EXPECT_EQ(jit.num_compiled(), 3);
  double seconds = 0;
  for (const auto& binary : results[0]) seconds += binary->compile_seconds;
  EXPECT_NEAR(jit.compile_seconds(), seconds, 1e-9);
}

TEST(Jit, RefusedSourceIsReportedAndTheOthersCompile) {
  const TemporaryFolder folder;
  Jit jit((KernelCache(folder.path())));
  std::vector<codegen::KernelSource> sources = three_sources();
  sources[1].text = "nonsense";
  const auto binaries = jit.get(sources);
  EXPECT_TRUE(binaries[0]->problems.empty());
  EXPECT_TRUE(binaries[2]->problems.empty());
  EXPECT_TRUE(binaries[1]->cubin.empty());
  ASSERT_EQ(binaries[1]->problems.size(), 1u);
  EXPECT_NE(binaries[1]->problems[0].find("scale.cu(1): error"), std::string::npos)
      << binaries[1]->problems[0];
  EXPECT_EQ(jit.cache().list().size(), 2u);
}

TEST(Jit, WarmStartNeedsNoNvrtc) {
  const TemporaryFolder folder;
  std::vector<std::shared_ptr<const Binary>> cold;
  {
    Jit jit((KernelCache(folder.path())));
    cold = jit.get(three_sources());
  }
  const ScopedVariable hidden("EPIFUSE_NVRTC", "/nowhere/libnvrtc.so");
  Jit jit((KernelCache(folder.path())));
  const auto warm = jit.get(three_sources());
  for (std::size_t i = 0; i < cold.size(); ++i) {
    EXPECT_TRUE(same(*warm[i], *cold[i]));
    EXPECT_EQ(warm[i]->compile_seconds, 0);
  }
  EXPECT_EQ(jit.num_compiled(), 0);
  EXPECT_EQ(jit.compile_seconds(), 0);
  const codegen::KernelSource fresh = small_source("5.0f");
  EXPECT_THROW(jit.get({&fresh, 1}), UnavailableError);
}

// The file is no library, so opening it would fail: its record must have been enough.
TEST(Jit, WarmStartDoesNotOpenAnUnchangedNvrtc) {
  const TemporaryFolder folder;
  const std::filesystem::path nvrtc = folder.path() / "libnvrtc.so.99";
  write_text(nvrtc, "not a library");
  write_text(folder.path() / "toolchains.tsv", record_row(nvrtc, "nvrtc 99.1 V99.1.2"));
  const ScopedVariable setting("EPIFUSE_NVRTC", nvrtc);
  const KernelCache cache(folder.path());
  const codegen::KernelSource source = small_source("2.0f");
  cache.store(cache_key(source, "nvrtc 99.1 V99.1.2"), small_binary(), "");
  EXPECT_TRUE(same(*Jit(cache).get({&source, 1})[0], small_binary()));

  write_text(nvrtc, "another library of another size");
  EXPECT_THROW(Jit(cache).get({&source, 1}), UnavailableError);
}

TEST(Jit, RecordSurvivesDamage) {
  const TemporaryFolder folder;
  for (const char* damage : {"", "\n\n", "one\ttwo", "\t\t\t\n", "a\tb\tc\td\te\n", "\xff\xfe\0"}) {
    write_text(folder.path() / "toolchains.tsv", damage);
    Jit jit((KernelCache(folder.path())));
    const codegen::KernelSource source = small_source("2.0f");
    EXPECT_FALSE(jit.get({&source, 1})[0]->cubin.empty());
  }
  EXPECT_EQ(recorded_toolchain(folder.path()), Nvrtc::open()->toolchain());
}

TEST(Jit, SaysWhereItLookedForNvrtc) {
  const TemporaryFolder folder;
  const ScopedVariable hidden("EPIFUSE_NVRTC", "/nowhere/libnvrtc.so");
  Jit jit((KernelCache(folder.path())));
  const codegen::KernelSource source = small_source("2.0f");
  for (int attempt = 0; attempt < 2; ++attempt) {  // a failure is not remembered as an answer
    try {
      jit.get({&source, 1});
      FAIL() << "no exception";
    } catch (const UnavailableError& error) {
      const std::string what = error.what();
      EXPECT_NE(what.find("NVRTC"), std::string::npos) << what;
      EXPECT_NE(what.find("/nowhere/libnvrtc.so (EPIFUSE_NVRTC)"), std::string::npos) << what;
    }
  }
}

TEST(Jit, AFailureThatPassesIsTriedAgain) {
  const TemporaryFolder folder;
  Jit jit((KernelCache(folder.path())));
  const codegen::KernelSource source = small_source("2.0f");
  {
    const ScopedVariable bad("EPIFUSE_THREADS", "many");
    EXPECT_THROW(jit.get({&source, 1}), ArgumentError);
  }
  EXPECT_FALSE(jit.get({&source, 1})[0]->cubin.empty());
}

TEST(Jit, WorksWithoutACacheFolder) {
  Jit jit((KernelCache(std::filesystem::path("/proc/no/such/folder"))));
  const auto binaries = jit.get(three_sources());
  for (const auto& binary : binaries) EXPECT_FALSE(binary->cubin.empty());
}

}  // namespace
}  // namespace epifuse::jit
