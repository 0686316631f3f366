// Hostile and huge `.epi` texts: each is read or refused within its limits and quickly.
#include <gtest/gtest.h>

#include <algorithm>
#include <ctime>
#include <string>

#include "epifuse/error.h"
#include "ir/graph.h"
#include "ir/limits.h"
#include "ir/text.h"

namespace epifuse::ir {
namespace {

// Quadratic behaviour takes minutes on these texts, linear well under a second when optimised.
constexpr double kPatienceSeconds = 20;

// Of this process, so that a busy machine does not matter.
double cpu_seconds() { return static_cast<double>(std::clock()) / CLOCKS_PER_SEC; }

std::string repeat(std::string_view part, std::size_t count) {
  std::string text;
  text.reserve(part.size() * count);
  for (std::size_t i = 0; i < count; ++i) text += part;
  return text;
}

std::string graph_of(const std::string& statements) {
  return "graph g(x: f32[M]) {\n" + statements + "  return x as y\n}\n";
}

// The error that reading `text` gives, checked to come soon and to be short.
std::string error_of(const std::string& text) {
  constexpr std::size_t kMaxMessageLength = 2000;
  const double start = cpu_seconds();
  std::string message = "no error";
  try {
    parse(text);
  } catch (const ParseError& error) {
    message = error.what();
  }
  EXPECT_LT(cpu_seconds() - start, kPatienceSeconds);
  EXPECT_LT(message.size(), kMaxMessageLength);
  return message;
}

void expect_error(const std::string& text, const std::string& part) {
  const std::string message = error_of(text);
  EXPECT_NE(message.find(part), std::string::npos) << message;
}

// A chain of `count` values behind the input.
std::string chain(std::size_t count) {
  std::string text = "  v1 = exp x\n";
  for (std::size_t i = 2; i <= count; ++i) {
    text += "  v" + std::to_string(i) + " = add v" + std::to_string(i - 1) + ", x\n";
  }
  return text;
}

TEST(ParserLimits, LargestGraphIsReadAndPrintedQuickly) {
  const double start = cpu_seconds();
  const Graph graph = parse(graph_of(chain(kMaxNodes - 1)));
  EXPECT_EQ(graph.nodes.size(), kMaxNodes);
  const std::string printed = print(graph);
  EXPECT_EQ(parse(printed), graph);
  verify(graph);
  EXPECT_LT(cpu_seconds() - start, kPatienceSeconds);
}

TEST(ParserLimits, OneValueMoreIsRefused) {
  expect_error(graph_of(chain(kMaxNodes)), "a graph has at most 100000 values");
}

TEST(ParserLimits, LiteralsCountAsValues) {
  std::string text;
  for (std::size_t i = 0; i <= kMaxNodes / 2; ++i) {
    text += "  v" + std::to_string(i) + " = add x, 1\n";
  }
  expect_error(graph_of(text), "a graph has at most 100000 values");
}

TEST(ParserLimits, UnknownNameAmongManyIsReportedQuickly) {
  expect_error(graph_of(chain(kMaxNodes - 2) + "  z = exp w12345\n"),
               "expected a value, got unknown name 'w12345' (did you mean 'v");
}

TEST(ParserLimits, TextSize) {
  const std::string header = "graph g(x: f32[M]) { return x as y } #";
  const std::string largest = header + repeat("-", kMaxTextBytes - header.size());
  EXPECT_EQ(parse(largest).nodes.size(), 1U);
  expect_error(largest + "-", "a text has at most 16777216 bytes, this one has 16777217");
}

TEST(ParserLimits, NameLength) {
  const std::string longest(kMaxNameLength, 'n');
  EXPECT_EQ(parse(graph_of("  " + longest + " = exp x\n")).nodes.back().name, longest);
  expect_error(graph_of("  " + longest + "n = exp x\n"),
               "expected a name of at most 200 characters, got one of 201");
}

TEST(ParserLimits, NumberLength) {
  const std::string longest = "0." + repeat("1", kMaxNumberLength - 2);
  EXPECT_EQ(parse(graph_of("  c = constant " + longest + "\n")).nodes.back().value, 1.0 / 9);
  expect_error(graph_of("  c = constant " + longest + "1\n"),
               "expected a number of at most 100 characters, got one of 101");
}

TEST(ParserLimits, NestingOfSizes) {
  const auto nested = [](std::size_t depth) {
    return "graph g(x: f32[M, " + repeat("(", depth) + "M" + repeat(")", depth) +
           "]) { return x as y }";
  };
  EXPECT_EQ(parse(nested(kMaxDimDepth)).nodes[0].type.shape[1], Dim("M"));
  expect_error(nested(kMaxDimDepth + 1), "a size nests at most 16 deep");
  expect_error(nested(1'000'000), "a size nests at most 16 deep");
  expect_error("graph g(x: f32[" + repeat("-", 1'000'000), "a size nests at most 16 deep");
}

TEST(ParserLimits, SizeArithmetic) {
  const auto sized = [](const std::string& size) {
    return "graph g(x: f32[" + size + "]) { return x as y }";
  };
  EXPECT_EQ(parse(sized("0" + repeat("+M", 100'000))).nodes[0].type.shape[0],
            Dim(100'000) * Dim("M"));
  std::string terms = "1", square = "(1";
  for (int i = 0; i < 200; ++i) terms += "+s" + std::to_string(i);
  for (int i = 0; i < 40; ++i) square += "+s" + std::to_string(i);
  square += ")";
  expect_error(sized(terms), "a size expression has more than 64 terms or 16 factors");
  expect_error(sized(square + "*" + square), "a size expression has more than 64 terms");
  expect_error(sized(repeat("M*", 100) + "M"), "more than 64 terms or 16 factors");
  expect_error(sized("4294967296*M*4294967296"), "overflows 64-bit integers");
  EXPECT_EQ(parse(sized("-9223372036854775808*M+N")).nodes[0].type.shape[0].str(),
            "N-9223372036854775808*M");
  expect_error(sized("9223372036854775808"), "which does not fit 64 bits");
}

// Products of sizes near the limits of a Dim, in a quarter of the longest text.
TEST(ParserLimits, ManySizeProductsStayQuick) {
  const std::string name(kMaxNameLength, 'M');
  const std::string sum =
      "(" + name + "*" + name + "*" + name + "+" + name + "*" + name + "+" + name + "+1)";
  const std::string text = "graph g(x: f32[0" +
                           repeat("+" + sum + "*" + sum + "*" + sum + "*" + sum + "*" + sum,
                                  kMaxTextBytes / (24 * sum.size())) +
                           "]) { return x as y }";
  const double start = cpu_seconds();
  EXPECT_EQ(parse(text).nodes[0].type.shape.size(), 1U);
  EXPECT_LT(cpu_seconds() - start, kPatienceSeconds);
}

TEST(ParserLimits, RepeatedJunkIsRefusedQuickly) {
  constexpr std::size_t kNumBytes = 1U << 20;
  const std::string parts[] = {
      "(",    "[",  "{", "graph ", "\n",          " ",          "#\n",
      "0",    "a",  "-", ",",      "x: f32[M], ", "return x\n", std::string(1, '\0'),
      "\xff", "c0 "};
  for (const std::string& part : parts) {
    const std::string junk = repeat(part, kNumBytes / part.size());
    EXPECT_NE(error_of(junk), "no error");
    EXPECT_NE(error_of("graph g(" + junk), "no error");
    EXPECT_NE(error_of("graph g(x: f32[M]) {\n  y = exp " + junk), "no error");
    EXPECT_NE(error_of("graph g(x: f32[" + junk), "no error");
  }
}

TEST(ParserLimits, ManyOutputsAndLongLists) {
  std::string outputs = "x as y0";
  for (int i = 1; i < 20'000; ++i) outputs += ", x as y" + std::to_string(i);
  const Graph graph = parse("graph g(x: f32[M]) { return " + outputs + " }");
  EXPECT_EQ(graph.outputs.size(), 20'000U);
  EXPECT_EQ(parse(print(graph)), graph);
  expect_error(graph_of("  t = transpose x [" + repeat("0,", 1'000'000) + "0]\n"),
               "expected each of the 1 dims once, got more");
  expect_error(graph_of("  t = slice x [" + repeat(":,", 1'000'000) + ":]\n"),
               "expected ']' after 1 ranges");
}

TEST(ParserErrors, CarryLineAndColumn) {
  try {
    parse("graph g(x: f32[M]) {\n\n  y = exp z\n  return y\n}\n");
    FAIL() << "no error";
  } catch (const ParseError& error) {
    EXPECT_EQ(error.line, 3);
    EXPECT_EQ(error.column, 11);
  }
}

TEST(ParserErrors, ShowStrangeBytesEscaped) {
  const std::string nul(1, '\0');
  EXPECT_EQ(error_of("graph g(x" + nul + ": f32[M])\x1b[31m"),
            "line 1, column 10: expected ':' and the type of the input, got the character "
            "'\\x00'\ngraph g(x\\x00: f32[M])\\x1b[31m\n         ^");
  EXPECT_EQ(error_of("graph \xff\xfe"),
            "line 1, column 7: expected the name of the graph, got the character '\\xff'\n"
            "graph \\xff\\xfe\n      ^");
  const std::string message = error_of("\x01\x02\xe2\x80\xae");
  EXPECT_TRUE(std::all_of(message.begin(), message.end(), [](char c) {
    return c == '\n' || (c >= ' ' && c <= '~');
  })) << message;
}

TEST(ParserErrors, EmptyTexts) {
  const std::string expected =
      "line 1, column 1: expected 'graph' and its name, got the end of "
      "the text\n\n^";
  EXPECT_EQ(error_of(""), expected);
  EXPECT_EQ(error_of(std::string()), expected);
  EXPECT_THROW(parse(std::string_view()), ParseError);
}

TEST(ParserErrors, ATextThatEndsWithinALineNamesWhatIsMissing) {
  EXPECT_NE(error_of("graph g(x: f32[M]) {\n  y = exp x\n  return y").find("expected '}'"),
            std::string::npos);
  EXPECT_NE(error_of("graph g(x: f32[M]) {\n  y = exp x").find("expected 'return'"),
            std::string::npos);
}

TEST(ParserText, CarriageReturnsAreSpace) {
  const std::string text = "graph g(x: f32[M]) {\n  y = exp x\n  return y\n}\n";
  std::string windows;
  for (const char c : text) windows += c == '\n' ? "\r\n" : std::string(1, c);
  EXPECT_EQ(parse(windows), parse(text));
}

TEST(ParserText, CommentsMayHoldAnyBytes) {
  const Graph graph = parse("# \xff\xfe\x01\ngraph g(x: f32[M]) { return x as y } # \xc3\xa9");
  EXPECT_EQ(graph.outputs[0].name, "y");
}

}  // namespace
}  // namespace epifuse::ir
