// The table of reasons: codes are stable words, sentences are whole, and the docs know every one.
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <set>
#include <string>

#include "ir/text.h"
#include "plan/reasons.h"

namespace epifuse::plan {
namespace {

TEST(Reasons, AreWellFormed) {
  const ir::Graph graph =
      ir::parse("graph g(x: f32[M], q: f32[M]) {\n  y = exp x\n  z = exp q\n  return y, z\n}\n");
  std::set<std::string_view> codes;
  for (std::size_t i = 0; i < all_reasons().size(); ++i) {
    const ReasonInfo& row = all_reasons()[i];
    EXPECT_TRUE(codes.insert(row.code).second) << row.code;
    EXPECT_TRUE(std::all_of(row.code.begin(), row.code.end(), [](char c) {
      return c == '_' || (c >= 'a' && c <= 'z');
    })) << row.code;
    const WhyNot why = why_not(graph, 0, {static_cast<Reason>(i), 1}, targets::kBlockLimits);
    EXPECT_EQ(why.code, row.code);
    EXPECT_NE(why.sentence.find('x'), std::string::npos) << why.sentence;
    EXPECT_EQ(why.sentence.back(), '.') << why.sentence;
    EXPECT_EQ(why.sentence.find('{'), std::string::npos) << why.sentence;
  }
}

TEST(Reasons, AreDocumented) {
  std::ifstream file(EPIFUSE_SOURCE_DIR "/docs/explain.md");
  const std::string docs{std::istreambuf_iterator<char>(file), {}};
  for (const ReasonInfo& row : all_reasons()) {
    EXPECT_NE(docs.find("`" + std::string(row.code) + "`"), std::string::npos) << row.code;
  }
}

}  // namespace
}  // namespace epifuse::plan
