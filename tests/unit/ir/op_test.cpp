// The op table, and every op's float64 meaning against known values.
#include "ir/op.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <fstream>
#include <iterator>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "base/text.h"

namespace epifuse::ir {
namespace {

// Few roundings of smooth functions; a wrong coefficient is off by far more.
constexpr double kRelativeError = 1e-13;

bool is_same(double got, double expected) {
  if (std::isnan(expected)) return std::isnan(got);
  if (expected == 0) return got == 0 && std::signbit(got) == std::signbit(expected);
  if (std::isinf(expected)) return got == expected;
  return std::fabs(got - expected) <= kRelativeError * std::fabs(expected);
}

// One line of values.txt: op, operands, "=", result.
void check_row(const std::string& line, std::map<Op, int>& num_rows) {
  std::istringstream words(line);
  std::string word;
  words >> word;
  const std::optional<Op> op = op_from_name(word);
  ASSERT_TRUE(op && info(*op).reference != nullptr) << line;
  std::array<double, 3> x{};
  for (int i = 0; i < info(*op).arity; ++i) {
    words >> word;
    ASSERT_TRUE(parse_number(word)) << line;
    x[static_cast<std::size_t>(i)] = *parse_number(word);
  }
  words >> word;
  ASSERT_EQ(word, "=") << line;
  words >> word;
  ASSERT_TRUE(parse_number(word)) << line;
  const double got = info(*op).reference(x.data());
  EXPECT_TRUE(is_same(got, *parse_number(word))) << line << ", got " << number_text(got);
  ++num_rows[*op];
}

TEST(Op, KnownValues) {
  std::ifstream file(EPIFUSE_SOURCE_DIR "/tests/ops/values.txt");
  ASSERT_TRUE(file);
  std::map<Op, int> num_rows;
  for (std::string line; std::getline(file, line);) {
    if (!line.empty() && line[0] != '#') check_row(line, num_rows);
  }
  for (const OpInfo& row : all_ops()) {
    if (row.reference != nullptr) {
      EXPECT_GE(num_rows[row.op], 5) << "values.txt has too few rows for " << row.name;
    }
  }
}

TEST(Op, NamesAreDistinctAndReadBack) {
  std::set<std::string_view> names;
  for (const OpInfo& row : all_ops()) {
    EXPECT_TRUE(names.insert(row.name).second) << row.name;
    EXPECT_EQ(op_from_name(row.name), row.op);
    EXPECT_EQ(name(row.op), row.name);
  }
  EXPECT_EQ(op_from_name("gelu"), std::nullopt);
}

TEST(Op, CommutingOpsCommute) {
  const double values[] = {-2.5, -1, 0.25, 1, 3, 1e300};
  for (const OpInfo& row : all_ops()) {
    if (row.reference == nullptr || row.arity != 2) continue;
    bool commutes = true;
    for (double a : values) {
      for (double b : values) {
        const double ab[] = {a, b}, ba[] = {b, a};
        commutes = commutes && row.reference(ab) == row.reference(ba);
      }
    }
    // min and max tell -0 from 0 by order, but commute on all else.
    EXPECT_EQ(commutes, row.commutes) << row.name;
  }
}

// The words of `text` between `begin` and the first ')' behind it.
std::vector<std::string> columns_of(const std::string& text, const std::string& begin) {
  const std::size_t at = text.find(begin);
  if (at == std::string::npos) return {};
  const std::size_t first = at + begin.size();
  std::string list = text.substr(first, text.find(')', first) - first);
  for (char& c : list) {
    if (c == ',' || c == '\\') c = ' ';
  }
  std::istringstream words(list);
  return {std::istream_iterator<std::string>(words), {}};
}

std::string file_text(const char* path) {
  std::ifstream file(std::string(EPIFUSE_SOURCE_DIR "/") + path);
  return {std::istreambuf_iterator<char>(file), {}};
}

TEST(Op, ThePageListsTheColumnsOfARowAndExplainsEach) {
  const std::string page = file_text("docs/adding-an-op.md");
  const std::vector<std::string> listed = columns_of(page, "\nEPIFUSE_OP(");
  // The definition that takes all columns; its last parameter has no name.
  std::vector<std::string> taken =
      columns_of(file_text("src/ir/op.cpp"), "EPIFUSE_OP(name, arity, kind, commutes, expr, fast");
  ASSERT_FALSE(taken.empty());
  ASSERT_EQ(taken.back(), "...");
  taken.back() = "turns...";
  taken.insert(taken.begin(), {"name", "arity", "kind", "commutes", "expr", "fast"});
  EXPECT_EQ(listed, taken);
  for (const std::string& column : taken) {
    EXPECT_NE(page.find("`" + column + "`"), std::string::npos) << column << " is not explained";
  }
}

TEST(Op, OpsOfFewInstructionsAreCheap) {
  for (const OpInfo& row : all_ops()) {
    if (row.reference == nullptr || !row.cheap) continue;
    EXPECT_LE(row.cost, 3) << row.name;
  }
  EXPECT_TRUE(info(Op::add).cheap && info(Op::cast).cheap && info(Op::lt).cheap);
  EXPECT_FALSE(info(Op::exp).cheap || info(Op::matmul).cheap);
}

TEST(Op, TurnsAreOfItsOperandsAndFirstOnesFirst) {
  for (const OpInfo& row : all_ops()) {
    bool ended = false;
    for (const Turn& turn : row.turns) {
      EXPECT_LT(turn.operand, row.arity) << row.name;
      ended = ended || turn.operand < 0;
      EXPECT_EQ(ended, turn.operand < 0) << row.name;
    }
  }
}

TEST(Op, LevelsInheritTheText) {
  EXPECT_EQ(info(Op::add).expr, "x0 + x1");
  EXPECT_EQ(info(Op::add).fast, "x0 + x1");
  EXPECT_EQ(info(Op::add).approx, "x0 + x1");
  EXPECT_EQ(info(Op::div).fast, "divide(x0, x1)");
  EXPECT_EQ(info(Op::div).approx, "divide(x0, x1)");
  EXPECT_EQ(info(Op::tanh).fast, "tanh(x0)");
  EXPECT_EQ(info(Op::tanh).approx, "tanh_approx(x0)");
  EXPECT_EQ(info(Op::matmul).expr, "");
}

TEST(Op, Kinds) {
  EXPECT_TRUE(is_elementwise(Op::add) && is_elementwise(Op::lt) && is_elementwise(Op::select) &&
              is_elementwise(Op::cast));
  EXPECT_FALSE(is_elementwise(Op::matmul) || is_elementwise(Op::reshape) ||
               is_elementwise(Op::row_sum) || is_elementwise(Op::constant));
  EXPECT_TRUE(is_view(Op::slice) && is_view(Op::broadcast));
  EXPECT_TRUE(is_reduction(Op::col_max));
  EXPECT_TRUE(is_source(Op::scalar));
  EXPECT_EQ(info(Op::select).arity, 3);
}

}  // namespace
}  // namespace epifuse::ir
