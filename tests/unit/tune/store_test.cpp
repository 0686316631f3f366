// Measured choices on disk: keys, round trip, what counts as a miss, many writers.
#include "tune/store.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <map>
#include <set>
#include <thread>

#include "base/file.h"
#include "ir/text.h"
#include "tests/unit/jit/environment.h"

namespace epifuse::tune {
namespace {

const std::string kKey(64, 'a');
const Tuned kTuned{"sm90_dense, ping-pong 128x192, 4 stages", "33.1 us measured"};

std::filesystem::path only_file(const std::filesystem::path& folder) {
  return std::filesystem::directory_iterator(folder)->path();
}

TEST(TuneStore, RoundTrip) {
  const jit::TemporaryFolder folder;
  const TuneStore store(folder.path());
  EXPECT_TRUE(store.empty());
  EXPECT_FALSE(store.load(kKey));
  store.store(kKey, kTuned, "64x64x64 bf16 silu");
  EXPECT_EQ(store.load(kKey), kTuned);
  EXPECT_FALSE(store.load(std::string(64, 'b')));
  EXPECT_FALSE(store.empty());
  ASSERT_EQ(store.list().size(), 1u);
  EXPECT_EQ(store.list()[0].description, "64x64x64 bf16 silu");
  EXPECT_EQ(store.list()[0].tuned, kTuned);
  EXPECT_EQ(store.clear(), 1u);
  EXPECT_TRUE(store.empty());
}

TEST(TuneStore, ClearLeavesWhatEpifuseDidNotWrite) {
  const jit::TemporaryFolder folder;
  const TuneStore store(folder.path());
  std::filesystem::create_directory(store.folder());
  EXPECT_EQ(store.clear(), 0u);
  EXPECT_TRUE(std::filesystem::exists(store.folder())) << "an empty folder of another program";
  jit::write_text(store.folder() / "song.tuned", "of another program");
  jit::write_text(store.folder() / (kKey + ".tuned"), "of another program");
  store.store(std::string(64, 'b'), kTuned, "");
  EXPECT_EQ(store.clear(), 1u);
  EXPECT_TRUE(std::filesystem::exists(store.folder() / "song.tuned"));
  EXPECT_TRUE(std::filesystem::exists(store.folder() / (kKey + ".tuned")));
}

TEST(TuneStore, ACacheThatOthersCanWriteToHasNoChoices) {
  const jit::TemporaryFolder folder;
  const TuneStore store(folder.path());
  std::filesystem::permissions(folder.path(), std::filesystem::perms::all);
  EXPECT_FALSE(store.store(kKey, kTuned, ""));
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
  std::filesystem::permissions(folder.path(), std::filesystem::perms::owner_all);
  EXPECT_TRUE(store.store(kKey, kTuned, ""));
  std::filesystem::permissions(folder.path(), std::filesystem::perms::all);
  EXPECT_FALSE(store.load(kKey));
  EXPECT_TRUE(store.empty());
  EXPECT_EQ(store.clear(), 0u);
  std::filesystem::permissions(folder.path(), std::filesystem::perms::owner_all);
  EXPECT_EQ(store.load(kKey), kTuned);
}

TEST(TuneStore, ClearRemovesItsFolder) {
  const jit::TemporaryFolder folder;
  const TuneStore store(folder.path());
  store.store(kKey, kTuned, "");
  EXPECT_EQ(store.clear(), 1u);
  EXPECT_FALSE(std::filesystem::exists(store.folder()));
}

TEST(TuneStore, WithoutAFolderNothingIsKept) {
  const TuneStore store({});
  store.store(kKey, kTuned, "");
  EXPECT_FALSE(store.load(kKey));
  EXPECT_TRUE(store.list().empty());
  EXPECT_EQ(store.clear(), 0u);
}

const Tuned kOther{"product and tail", "30.0 us measured"};

TEST(TuneStore, AChoiceOnceKeptStaysUntilAnotherIsAskedFor) {
  const jit::TemporaryFolder folder;
  const TuneStore store(folder.path());
  EXPECT_EQ(store.keep(kKey, kTuned, "a"), kTuned);
  EXPECT_EQ(store.keep(kKey, kOther, "a"), kTuned);
  EXPECT_EQ(store.load(kKey), kTuned);
  store.store(kKey, kOther, "a");
  EXPECT_EQ(store.load(kKey), kOther);
}

TEST(TuneStore, KeepingReplacesWhatIsNotWhole) {
  const jit::TemporaryFolder folder;
  const TuneStore store(folder.path());
  store.store(kKey, kTuned, "a");
  jit::write_text(only_file(store.folder()), "epifuse tuned 2\nhalf of it");
  EXPECT_EQ(store.keep(kKey, kOther, "a"), kOther);
  EXPECT_EQ(store.load(kKey), kOther);
  EXPECT_EQ(TuneStore({}).keep(kKey, kTuned, "a"), kTuned) << "without a folder nothing is kept";
}

TEST(TuneStore, ProcessesThatKeepAtTheSameTimeAgree) {
  const jit::TemporaryFolder folder;
  constexpr int kWriters = 4;
  int pipes[2];
  ASSERT_EQ(pipe(pipes), 0);
  for (int writer = 0; writer < kWriters; ++writer) {
    if (fork() != 0) continue;
    const TuneStore store(folder.path());
    for (int key = 0; key < 30; ++key) {
      const std::string name(64, "abcdef"[key % 6]);
      const Tuned kept = store.keep(name, {fmt::format("way {} of {}", writer, key), "m"}, "");
      const auto size = static_cast<ssize_t>(kept.choice.size()) + 1;
      if (key < 6 && write(pipes[1], (kept.choice + "\n").data(), kept.choice.size() + 1) != size) {
        _exit(1);
      }
    }
    _exit(0);
  }
  close(pipes[1]);
  std::map<std::string, int> said;
  std::FILE* const lines = fdopen(pipes[0], "r");
  for (char line[64]; std::fgets(line, sizeof(line), lines) != nullptr;) ++said[line];
  std::fclose(lines);
  for (int i = 0; i < kWriters; ++i) wait(nullptr);
  EXPECT_EQ(said.size(), 6u) << "one choice for each key";
  for (const auto& [choice, count] : said) EXPECT_EQ(count, kWriters) << choice;
}

TEST(TuneStore, AnyChangedByteIsAMissAndTheNextStoreMendsIt) {
  const jit::TemporaryFolder folder;
  const TuneStore store(folder.path());
  store.store(kKey, kTuned, "a");
  const std::filesystem::path file = only_file(store.folder());
  const std::string good = read_file(file).value();
  for (std::size_t i = 0; i < good.size(); ++i) {
    std::string bad = good;
    bad[i] = static_cast<char>(bad[i] ^ 1);
    jit::write_text(file, bad);
    ASSERT_FALSE(store.load(kKey)) << "byte " << i;
    EXPECT_FALSE(store.list().at(0).valid);
  }
  store.store(kKey, kTuned, "a");
  EXPECT_EQ(store.load(kKey), kTuned);
}

TEST(TuneStore, AnyOtherLengthIsAMiss) {
  const jit::TemporaryFolder folder;
  const TuneStore store(folder.path());
  store.store(kKey, kTuned, "a");
  const std::filesystem::path file = only_file(store.folder());
  const std::string good = read_file(file).value();
  for (std::size_t length = 0; length < good.size(); ++length) {
    jit::write_text(file, good.substr(0, length));
    ASSERT_FALSE(store.load(kKey)) << length << " bytes";
  }
  jit::write_text(file, good + "x");
  EXPECT_FALSE(store.load(kKey));
}

TEST(TuneStore, AFileUnderAnotherNameIsAMiss) {
  const jit::TemporaryFolder folder;
  const TuneStore store(folder.path());
  store.store(kKey, kTuned, "a");
  std::filesystem::rename(only_file(store.folder()),
                          store.folder() / (std::string(64, 'b') + ".tuned"));
  EXPECT_FALSE(store.load(std::string(64, 'b')));
}

TEST(TuneStore, ProcessesShareAFolder) {
  const jit::TemporaryFolder folder;
  std::vector<pid_t> children;
  for (int writer = 0; writer < 4; ++writer) {
    const pid_t child = fork();
    if (child == 0) {
      const TuneStore store(folder.path());
      bool good = true;
      for (int round = 0; round < 30; ++round) {
        const std::string choice(1000u * static_cast<unsigned>(writer + 1), 'x');
        store.store(kKey, {choice, "m"}, "concurrent");
        const auto loaded = store.load(kKey);
        good = good && loaded && loaded->choice.size() % 1000 == 0 && loaded->measured == "m";
      }
      _exit(good ? 0 : 1);
    }
    children.push_back(child);
  }
  for (const pid_t child : children) {
    int status = -1;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
  }
  EXPECT_EQ(TuneStore(folder.path()).list().size(), 1u);
}

plan::Plan plan_of(const std::string& text, Numerics numerics = Numerics::fast) {
  return plan::make_plan(ir::parse(text), {numerics});
}

struct MadeUpVariant {
  int number = 0;
  bool operator==(const MadeUpVariant&) const = default;
};
std::string print(const MadeUpVariant&) { return "made up"; }
std::string key(const MadeUpVariant& variant) { return std::to_string(variant.number); }

codegen::GemmVariant variant(int number) { return codegen::make_variant(MadeUpVariant{number}); }

std::string key_of(const plan::Plan& plan, const codegen::GemmSizes& sizes = {1, 64, 768, 512},
                   const codegen::GemmVariant& variant = {},
                   const Machine& machine = {"NVIDIA H200", 13000, ""}) {
  return tune_key(plan, std::get<plan::FusedGemm>(plan.steps.front()), {sizes, variant}, machine);
}

constexpr const char* kGraph =
    "graph g(x: bf16[M, 512], w: bf16[768, 512], b: bf16[768]) {\n"
    "  h = matmul x, w^T\n  t = add h, b\n  y = silu t\n  return y\n}\n";

TEST(TuneStore, TimesStayWhatTheyWere) {
  const jit::TemporaryFolder folder;
  const TuneStore store(folder.path());
  const Tuned tuned{"a kernel", "25.1 us measured", 25.1, 16.300000000000001, 14.1};
  store.store(kKey, tuned, "what");
  EXPECT_EQ(store.load(kKey), tuned);
}

TEST(Tuned, IsLeftToAFrameworkThatIsFasterByThreePercentAndTwoMicroseconds) {
  const auto is_left = [](double us, double framework_us) {
    return is_left_to_framework({"a kernel", "", us, framework_us});
  };
  EXPECT_TRUE(is_left(25, 16.3));
  EXPECT_TRUE(is_left(104, 100));
  EXPECT_FALSE(is_left(102.9, 100));
  EXPECT_FALSE(is_left(11.9, 10)) << "less than 2 us";
  EXPECT_FALSE(is_left(9, 10));
  EXPECT_FALSE(is_left(9, 0)) << "not measured";
}

TEST(Tuned, IsLeftToAFrameworkUnlessAheadWhereNothingIsGained) {
  const auto is_left = [](double us, double framework_us) {
    return is_left_to_framework({"a kernel", "", us, framework_us}, true);
  };
  EXPECT_TRUE(is_left(100, 100));
  EXPECT_TRUE(is_left(91, 100));
  EXPECT_FALSE(is_left(89, 100));
  EXPECT_FALSE(is_left(15, 15)) << "a framework's call takes longer";
  EXPECT_TRUE(is_left(25, 15));
  EXPECT_FALSE(is_left(100, 0)) << "not measured";
}

TEST(Tuned, IsLeftToAFrameworkBehindCopiesAndAsProductAndTailUnlessAhead) {
  const auto is_left = [](std::string_view choice, double us, double framework_us) {
    return is_left_to_framework({std::string(choice), "", us, framework_us},
                                choice == kProductAndTail);
  };
  EXPECT_TRUE(is_left(kOperandsFirst, 15.1, 15));
  EXPECT_TRUE(is_left(operands_first("a kernel"), 15.1, 15));
  EXPECT_FALSE(is_left(kOperandsFirst, 14.9, 15));
  EXPECT_FALSE(is_left(kOperandsFirst, 15, 0)) << "not measured";
  EXPECT_TRUE(is_left(kProductAndTail, 14.9, 15));
  EXPECT_FALSE(is_left(kProductAndTail, 13, 15));
}

TEST(Tuned, IsWeighedAgainstPaddedProductsWhereTheFrameworkPads) {
  const Tuned tuned{"a kernel", "", 25, 30, 16.3};
  EXPECT_FALSE(is_left_to_framework(tuned));
  EXPECT_TRUE(is_left_to_framework(tuned, false, /*pads=*/true));
  EXPECT_FALSE(is_left_to_framework({"a kernel", "", 25, 16.3, 0}, false, /*pads=*/true));
}

TEST(TuneStore, OneMeasuresOnADeviceAtATime) {
  const jit::TemporaryFolder folder;
  const TuneStore store(folder.path());
  std::atomic<int> inside = 0, most = 0;
  const auto measure = [&] {
    const jit::KeyLock alone = store.device_alone("0000:1b:00");
    EXPECT_EQ(alone.state(), jit::KeyLock::State::held);
    most = std::max(most.load(), ++inside);
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    --inside;
  };
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) threads.emplace_back(measure);
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(most, 1);
  const jit::KeyLock one = store.device_alone("0000:1b:00");
  EXPECT_EQ(store.device_alone("0000:2c:00").state(), jit::KeyLock::State::held);
}

TEST(TuneKey, NamesOfValuesDoNotCount) {
  const plan::Plan renamed = plan_of(
      "graph other(in: bf16[N, 512], weight: bf16[768, 512], bias: bf16[768]) {\n"
      "  p = matmul in, weight^T\n  q = add p, bias\n  out = silu q\n  return out\n}\n");
  EXPECT_EQ(key_of(plan_of(kGraph)), key_of(renamed));
}

TEST(TuneKey, RowsOfOneClassShareAChoice) {
  const plan::Plan plan = plan_of(kGraph);
  EXPECT_EQ(key_of(plan, {1, 1000, 768, 512}), key_of(plan, {1, 1024, 768, 512}));
  EXPECT_NE(key_of(plan, {1, 1000, 768, 512}), key_of(plan, {1, 1025, 768, 512}));
}

TEST(TuneKey, EverythingElseDoes) {
  const plan::Plan plan = plan_of(kGraph);
  const plan::Plan relu = plan_of(
      "graph g(x: bf16[M, 512], w: bf16[768, 512], b: bf16[768]) {\n"
      "  h = matmul x, w^T\n  t = add h, b\n  y = relu t\n  return y\n}\n");
  const plan::Plan f16 = plan_of(
      "graph g(x: f16[M, 512], w: f16[768, 512], b: f16[768]) {\n"
      "  h = matmul x, w^T\n  t = add h, b\n  y = silu t\n  return y\n}\n");
  const plan::Plan n_major = plan_of(
      "graph g(x: bf16[M, 512], w: bf16[512, 768], b: bf16[768]) {\n"
      "  h = matmul x, w\n  t = add h, b\n  y = silu t\n  return y\n}\n");
  const std::set<std::string> keys{
      key_of(plan),
      key_of(relu),
      key_of(f16),
      key_of(n_major),
      key_of(plan_of(kGraph, Numerics::approx)),
      key_of(plan, {1, 65, 768, 512}),
      key_of(plan, {1, 64, 769, 512}),
      key_of(plan, {2, 64, 768, 512}),
      key_of(plan, {1, 64, 768, 512}, variant(1)),
      key_of(plan, {1, 64, 768, 512}, variant(2)),
      key_of(plan, {1, 64, 768, 512}, {}, {"NVIDIA H100", 13000, ""}),
      key_of(plan, {1, 64, 768, 512}, {}, {"NVIDIA H200", 12080, ""}),
      key_of(plan, {1, 64, 768, 512}, {}, {"NVIDIA H200", 13000, "nvrtc 13.0"}),
      key_of(plan, {1, 64, 768, 512}, {}, {"NVIDIA H200", 13000, "", "a family"}),
      key_of(plan, {1, 64, 768, 512}, {}, {"NVIDIA H200", 13000, "", "another family"}),
  };
  EXPECT_EQ(keys.size(), 15u);
  EXPECT_EQ(key_of(plan, {1, 64, 768, 512}, variant(0)), key_of(plan));
}

TEST(OperandsFirst, AChoiceMayNameTheKernelBehindCopies) {
  EXPECT_EQ(kernel_behind_copies(kOperandsFirst), "");
  EXPECT_EQ(kernel_behind_copies(operands_first("sm, 64x64")), "sm, 64x64");
  EXPECT_FALSE(kernel_behind_copies(kProductAndTail));
  EXPECT_FALSE(kernel_behind_copies("sm, 64x64"));
}

}  // namespace
}  // namespace epifuse::tune
