// docs/epi.md stays true: its examples are read, its tables name every op. So does the fuzzer's
// dictionary.
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "ir/graph.h"
#include "ir/text.h"
#include "ir/words.h"

namespace epifuse::ir {
namespace {

std::string text_of(const std::string& path) {
  std::ifstream file(EPIFUSE_SOURCE_DIR "/" + path);
  return {std::istreambuf_iterator<char>(file), {}};
}

std::string reference_text() { return text_of("docs/epi.md"); }

// The ```epi blocks.
std::vector<std::string> examples(const std::string& text) {
  std::vector<std::string> blocks;
  const std::string open = "```epi\n", close = "```\n";
  for (auto at = text.find(open); at != std::string::npos; at = text.find(open, at)) {
    at += open.size();
    blocks.push_back(text.substr(at, text.find(close, at) - at));
  }
  return blocks;
}

std::size_t count(const std::string& text, char c) {
  return static_cast<std::size_t>(std::count(text.begin(), text.end(), c));
}

// Operand column of the table row of `op`; empty when there is no row.
std::string documented_operands(const std::string& text, std::string_view op) {
  const std::string row = "\n| `" + std::string(op) + "` | ";
  const auto at = text.find(row);
  if (at == std::string::npos) return "";
  return text.substr(at + row.size(), text.find(" |", at + row.size()) - at - row.size());
}

TEST(LanguageReference, ExamplesRoundTrip) {
  const auto blocks = examples(reference_text());
  ASSERT_GE(blocks.size(), 5U);
  for (const std::string& block : blocks) {
    SCOPED_TRACE(block);
    const Graph graph = parse(block);
    verify(graph);
    EXPECT_EQ(parse(print(graph)), graph);
  }
}

TEST(LanguageReference, NamesEveryOpWithItsOperands) {
  const std::string text = reference_text();
  for (const OpInfo& row : all_ops()) {
    if (row.op == Op::input || row.op == Op::scalar) continue;
    const std::string operands = documented_operands(text, row.name);
    EXPECT_NE(operands, "") << row.name << " has no row";
    if (is_elementwise(row.op)) {
      EXPECT_EQ(count(operands, ',') + 1, static_cast<std::size_t>(row.arity)) << row.name;
    }
  }
}

TEST(FuzzDictionary, NamesEveryWord) {
  const std::string text = text_of("tests/fuzz/epi.dict");
  for (const std::string_view word : reserved_words()) {
    EXPECT_NE(text.find("\n\"" + std::string(word) + "\"\n"), std::string::npos) << word;
  }
}

}  // namespace
}  // namespace epifuse::ir
