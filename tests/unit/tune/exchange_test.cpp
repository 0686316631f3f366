// Choices as text: what goes out comes in, what is known stays, what is not whole is refused.
#include "tune/exchange.h"

#include <gtest/gtest.h>

#include "epifuse/error.h"
#include "tests/unit/jit/environment.h"

namespace epifuse::tune {
namespace {

const std::string kOne(64, '1'), kTwo(64, '2');
const Tuned kFused{"a family, ping-pong", "33.1 us measured"};
const Tuned kSplit{"product and tail", "30 us \"measured\""};

std::string refusal(const std::string& text) {
  const jit::TemporaryFolder folder;
  const TuneStore store(folder.path());
  try {
    import_choices(text, store);
  } catch (const ArgumentError& error) {
    EXPECT_TRUE(store.empty()) << "nothing is kept of it";
    return error.what();
  }
  return "";
}

std::string with_choices(const std::string& choices) {
  return R"({"format": "epifuse tuned choices 1", "choices": [)" + choices + "]}";
}

TEST(Exchange, WhatGoesOutComesIn) {
  const jit::TemporaryFolder from, to;
  const TuneStore source(from.path()), target(to.path());
  source.store(kTwo, kSplit, "64x64x64 bf16");
  source.store(kOne, kFused, "8x8x8 f16\n\xff");
  const std::string text = export_choices(source);
  const Imported imported = import_choices(text, target);
  EXPECT_EQ(imported.added, 2u);
  EXPECT_EQ(imported.known, 0u);
  EXPECT_EQ(target.load(kOne), kFused);
  EXPECT_EQ(target.load(kTwo), kSplit);
  EXPECT_EQ(export_choices(target), text);
}

TEST(Exchange, TimesComeInWhereTheyAreKnown) {
  const jit::TemporaryFolder from, to;
  const TuneStore source(from.path()), target(to.path());
  const Tuned timed{"a kernel", "25.1 us measured", 25.1, 16.3};
  const Tuned padded{"a kernel", "25.1 us measured", 25.1, 0, 17.2};
  const std::string three(64, '3');
  source.store(kOne, timed, "a");
  source.store(kTwo, kFused, "b");
  source.store(three, padded, "c");
  import_choices(export_choices(source), target);
  EXPECT_EQ(target.load(kOne), timed);
  EXPECT_EQ(target.load(kTwo), kFused);
  EXPECT_EQ(target.load(three), padded);
}

TEST(Exchange, WhatCannotBeKeptIsCounted) {
  const jit::TemporaryFolder from;
  const TuneStore source(from.path());
  source.store(kOne, kFused, "a");
  const Imported imported =
      import_choices(export_choices(source), TuneStore("/dev/null/no_folder"));
  EXPECT_EQ(imported.added, 0u);
  EXPECT_EQ(imported.lost, 1u);
}

TEST(Exchange, AChoiceThatIsKnownStays) {
  const jit::TemporaryFolder from, to;
  const TuneStore source(from.path()), target(to.path());
  source.store(kOne, kFused, "a");
  source.store(kTwo, kFused, "b");
  target.store(kOne, kSplit, "a");
  const Imported imported = import_choices(export_choices(source), target);
  EXPECT_EQ(imported.added, 1u);
  EXPECT_EQ(imported.known, 1u);
  EXPECT_EQ(imported.differ, 1u);
  EXPECT_EQ(import_choices(export_choices(target), target).differ, 0u);
  EXPECT_EQ(target.load(kOne), kSplit);
  EXPECT_EQ(target.load(kTwo), kFused);
}

TEST(Exchange, AnEmptyStoreIsATextWithoutChoices) {
  const jit::TemporaryFolder from, to;
  const std::string text = export_choices(TuneStore(from.path()));
  EXPECT_EQ(import_choices(text, TuneStore(to.path())).added, 0u);
}

TEST(Exchange, OtherTextsAreRefused) {
  EXPECT_EQ(refusal("choices"),
            "expected JSON of the format \"epifuse tuned choices 1\", as `epifuse tune --export` "
            "writes it, got other text");
  EXPECT_NE(refusal(R"({"format": "epifuse tuned choices 2", "choices": []})").find("choices 2"),
            std::string::npos);
  EXPECT_EQ(refusal(R"({"format": "epifuse tuned choices 1"})"), "expected a list as 'choices'");
  const std::string good =
      R"({"key": ")" + kOne + R"(", "for": "", "choice": "c", "measured": ""})";
  EXPECT_EQ(refusal(with_choices(good + ", 3")), "choice 2: expected an object, got 3");
  EXPECT_EQ(refusal(with_choices(good + R"(, {"key": "x"})")),
            "choice 2: expected a text as 'for', got none");
  EXPECT_EQ(refusal(with_choices(R"({"key": "../x", "for": "", "choice": "", "measured": ""})")),
            "choice 1: expected 64 hexadecimal digits as 'key', got '../x'");
}

TEST(Exchange, DeepTextsAreRefused) {
  constexpr int kLevels = 80'000;
  const std::string deep = std::string(kLevels, '[') + std::string(kLevels, ']');
  const std::string expected =
      "expected JSON of the format \"epifuse tuned choices 1\", got more than 64 levels of lists "
      "and objects";
  EXPECT_EQ(refusal(deep), expected);
  EXPECT_EQ(refusal(R"({"format": )" + deep + "}"), expected);
  EXPECT_EQ(refusal(R"({"format": "epifuse tuned choices 1", "choices": )" + deep + "}"), expected);
  EXPECT_EQ(refusal(with_choices(R"({"key": )" + deep + "}")), expected);
}

}  // namespace
}  // namespace epifuse::tune
