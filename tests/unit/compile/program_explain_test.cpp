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

// A vendor would be given them widened, which takes far longer, and of integers no exact sums.
TEST(ProgramExplain, BareProductsOf8BitsAreOurs) {
  for (const std::string dtype : {"e4m3", "i8"}) {
    const Program program = compile(Graph::parse("graph g(x: " + dtype + "[M, K], w: " + dtype +
                                                 "[N, K]) {\n  h = matmul x, w^T\n  return h\n}\n"),
                                    Target::parse("sm_90a"));
    for (const std::int64_t n : {4096, 1000}) {
      const std::string text = program.explain({{"M", 2000}, {"N", n}, {"K", 4096}});
      EXPECT_NE(text.find("the product h runs by sm90_dense"), std::string::npos) << text;
    }
  }
}

// Rows off 16-byte boundaries and scales of blocks: Hopper's own kernel spills.
TEST(ProgramExplain, AnotherFamilyTakesScaledProductsThatSpill) {
  const Program program = compile(
      Graph::parse("graph g(x: e4m3[M, 300], w: e4m3[N, 300], sx: f32[M, 3], sw: f32[N, 3]) {\n"
                   "  h = scaled_matmul x, w^T, sx, sw\n  y = relu h\n  return y\n}\n"),
      Target::parse("sm_90a"));
  const std::string text = program.explain({{"M", 64}, {"N", 4096}});
  EXPECT_NE(text.find("the product h runs by sm80"), std::string::npos) << text;
  EXPECT_EQ(text.find("product and tail"), std::string::npos) << text;
}

TEST(ProgramExplain, CountsTheBlocksThatScalesNeed) {
  const Program program = compile(
      Graph::parse("graph g(x: e4m3[M, K], w: e4m3[N, K], sx: f32[M, KB], sw: f32[NB, KB]) {\n"
                   "  h = scaled_matmul x, w^T, sx, sw -> bf16\n  y = relu h\n  return y\n}\n"),
      Target::parse("sm_90a"));
  const std::string text = program.explain({{"M", 128}, {"N", 256}, {"K", 520}});
  EXPECT_NE(text.find("At these sizes the product h runs by"), std::string::npos) << text;
  const std::string wrong = program.explain({{"K", 520}, {"KB", 4}});
  EXPECT_NE(wrong.find("At these sizes nothing runs: scaled_matmul 'h' expects 5 blocks of 128 for "
                       "K = 520, got 4 in 'sx'\n"),
            std::string::npos)
      << wrong;
}

TEST(ProgramExplain, SaysWhichSizesFitNoTensors) {
  const Program program = compile(Graph::parse(kText), Target::cpu());
  const Sizes huge{{"M", kMaxElements}};
  EXPECT_NE(program.explain(huge).find("At these sizes nothing runs: expected a shape of at most "
                                       "2^40 elements, got [M, K]"),
            std::string::npos)
      << program.explain(huge);
  EXPECT_NE(program.explain_json(huge).find("\"refusal\": \"expected a shape"), std::string::npos);
  EXPECT_NE(program.explain_json({}).find("\"refusal\": \"\""), std::string::npos);
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
