// What Program::explain adds to the plan: steps that are split at the sizes asked about.
#include <gtest/gtest.h>

#include <string>
#include <utility>

#include "epifuse/epifuse.h"

namespace epifuse {
namespace {

constexpr const char* kText = R"(graph g(x: bf16[M, K], w: bf16[N, K], r: bf16[M, N]) {
  h = matmul x, w^T
  y = add h, r
  return y
}
)";

std::string explain(const Sizes& sizes, const Target& target) {
  return compile(Graph::parse(kText), target).explain(sizes);
}

constexpr const char* kSplit = "runs as product and tail";
constexpr const char* kOff = "off 16-byte boundaries";

TEST(ProgramExplain, NamesTheKernelThatTheseSizesAskFor) {
  const Target hopper = Target::parse("sm_90a");
  const std::string odd = explain({{"M", 17}, {"N", 128}, {"K", 70}}, hopper);
  EXPECT_NE(odd.find("a off 16-byte boundaries, b off 16-byte boundaries"), std::string::npos)
      << odd;
  EXPECT_EQ(explain({{"M", 17}, {"N", 128}, {"K", 72}}, hopper).find(kOff), std::string::npos);
}

TEST(ProgramExplain, LargeProductsOfMisalignedOperandsRunBehindCopiesOfThem) {
  const Target hopper = Target::parse("sm_90a");
  const std::string large = explain({{"M", 2000}, {"N", 1000}, {"K", 3001}}, hopper);
  EXPECT_NE(large.find("behind copies of misaligned operands"), std::string::npos) << large;
  const std::string small = explain({{"M", 17}, {"N", 128}, {"K", 70}}, hopper);
  EXPECT_EQ(small.find("behind copies"), std::string::npos) << small;
}

// On a machine without a GPU that is the target's reference device.
TEST(ProgramExplain, EndsWithWhoseTimesTheyAre) {
  const Program program = compile(Graph::parse(kText), Target::parse("sm_90a"));
  const std::string text = program.explain({}), json = program.explain_json({});
  const std::size_t line = text.rfind('\n', text.size() - 2) + 1;
  const std::string last = text.substr(line, text.size() - line - 1);
  EXPECT_TRUE(last.starts_with("Expected times follow") || last.starts_with("There is no profile"))
      << text;
  EXPECT_NE(json.find("\"profile\": \"" + last + "\""), std::string::npos) << json;
  EXPECT_EQ(explain({}, Target::cpu()).find("Expected times follow"), std::string::npos);
}

TEST(ProgramExplain, SaysWhatATargetsKernelsDoNotUse) {
  EXPECT_NE(explain({}, Target::parse("sm_100")).find("do not use its tcgen05 instructions yet"),
            std::string::npos);
  EXPECT_EQ(explain({}, Target::parse("sm_120")).find("tcgen05"), std::string::npos);
}

TEST(ProgramExplain, SizesAreInBounds) {
  const Program program = compile(Graph::parse(kText), Target::cpu());
  for (const std::int64_t size : {std::int64_t{-1}, kMaxElements + 1}) {
    EXPECT_THROW(program.explain({{"M", size}}), ArgumentError);
    EXPECT_THROW(program.explain_json({{"M", size}}), ArgumentError);
  }
  program.explain({{"M", 1 << 20}});
}

TEST(ProgramExplain, WhatWasMovedFromStillAnswers) {
  Program program = compile(Graph::parse(kText), Target::parse("cpu"));
  const std::string before = program.explain();
  const Program moved = std::move(program);
  EXPECT_EQ(program.explain(), before);  // NOLINT(bugprone-use-after-move): this is what is tested
  EXPECT_EQ(moved.explain(), before);
}

TEST(ProgramExplain, TheCpuSplitsNothing) {
  EXPECT_EQ(explain({{"M", 17}, {"N", 127}, {"K", 70}}, Target::cpu()).find(kSplit),
            std::string::npos);
}

}  // namespace
}  // namespace epifuse
