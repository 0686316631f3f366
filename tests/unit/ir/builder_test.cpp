// The C++ builder makes the graph that the same `.epi` text gives.
#include <gtest/gtest.h>

#include <functional>
#include <limits>
#include <string>
#include <utility>

#include "epifuse/error.h"
#include "epifuse/graph.h"
#include "ir/graph.h"
#include "ir/text.h"

namespace epifuse {
namespace {

const Dim M("M");

// Runs `body` and gives the message of the `Exception` it throws.
template <typename Exception>
std::string message_of(const std::function<void()>& body) {
  try {
    body();
  } catch (const Exception& error) {
    return error.what();
  }
  return "no exception of the expected type";
}

void expect_text(const Graph& graph, const std::string& text) {
  EXPECT_EQ(graph.str(), text);
  ir::verify(graph.ir());
  EXPECT_EQ(ir::parse(graph.str()), graph.ir());
}

TEST(Builder, BuildsTheFeedForwardExample) {
  Graph g("ffn_down");
  const auto x = g.input("x", DType::bf16, {M, 3072}), w = g.input("w", DType::bf16, {768, 3072});
  const auto b = g.input("b", DType::bf16, {768}), r = g.input("r", DType::bf16, {M, 768});
  g.output("y", gelu_erf(matmul(x, transpose(w)) + b) + r);
  expect_text(
      g, R"(graph ffn_down(x: bf16[M, 3072], w: bf16[768, 3072], b: bf16[768], r: bf16[M, 768]) {
  t4 = transpose w [1, 0]
  t5 = matmul x, t4
  t6 = add t5, b
  t7 = gelu_erf t6
  t8 = add t7, r
  return t8 as y
}
)");
}

TEST(Builder, WhatWasMovedFromCanStillBeBuiltOn) {
  Graph g("moved");
  Value x = g.input("x", DType::f32, {M});
  const Graph same = std::move(g);
  const Value y = std::move(x);
  // NOLINTNEXTLINE(bugprone-use-after-move): this is what is tested
  g.output("z", x + y);
  expect_text(same, "graph moved(x: f32[M]) {\n  t1 = add x, x\n  return t1 as z\n}\n");
}

TEST(Builder, EveryFunctionMakesItsOp) {
  Graph g("all");
  const auto x = g.input("x", DType::f32, {M, 4}), y = g.input("y", DType::f32, {M, 4});
  const auto whole = g.input("s", DType::f32, {256, 128});
  const std::pair<Value, std::string> cases[] = {
      {x + y, "add x, y"},
      {x - y, "sub x, y"},
      {x * y, "mul x, y"},
      {x / y, "div x, y"},
      {-x, "neg x"},
      {min(x, y), "min x, y"},
      {max(x, y), "max x, y"},
      {pow(x, y), "pow x, y"},
      {abs(x), "abs x"},
      {sqrt(x), "sqrt x"},
      {rsqrt(x), "rsqrt x"},
      {exp2(x), "exp2 x"},
      {log2(x), "log2 x"},
      {ceil(x), "ceil x"},
      {floor(x), "floor x"},
      {square(x), "square x"},
      {exp(x), "exp x"},
      {log(x), "log x"},
      {tanh(x), "tanh x"},
      {erf(x), "erf x"},
      {sigmoid(x), "sigmoid x"},
      {silu(x), "silu x"},
      {gelu_erf(x), "gelu_erf x"},
      {gelu_tanh(x), "gelu_tanh x"},
      {relu(x), "relu x"},
      {softplus(x), "softplus x"},
      {hardswish(x), "hardswish x"},
      {lt(x, y), "lt x, y"},
      {le(x, y), "le x, y"},
      {gt(x, y), "gt x, y"},
      {ge(x, y), "ge x, y"},
      {eq(x, y), "eq x, y"},
      {ne(x, y), "ne x, y"},
      {row_sum(x), "row_sum x"},
      {row_max(x), "row_max x"},
      {block_max(x), "block_max x"},
      {block_first(whole, 128), "block_first s [128, 128]"},
      {col_sum(x), "col_sum x"},
      {col_max(x), "col_max x"},
      {apply("silu", {x}), "silu x"},
      {cast(x, DType::bf16), "cast x -> bf16"},
      {transpose(x, {1, 0}), "transpose x [1, 0]"},
      {reshape(x, {M, 2, 2}), "reshape x [M, 2, 2]"},
      {broadcast(x, {2, M, 4}), "broadcast x [2, M, 4]"},
      {slice(x, {{0, M}, {1, 4, 2}}), "slice x [:, 1:4:2]"},
      {matmul(x, transpose(y)), "matmul x, t48"},
  };
  std::string text = g.str();
  for (const auto& [value, call] : cases) {
    g.output("o", value);
    const std::string line = " = " + call + "\n";
    EXPECT_NE(text.find(line), std::string::npos) << call << " is not in\n" << text;
  }
  ir::verify(g.ir());
  EXPECT_EQ(ir::parse(g.str()), g.ir());
}

TEST(Builder, NumbersBecomeConstants) {
  Graph g("numbers");
  const auto x = g.input("x", DType::bf16, {M, 8});
  g.output("y", 1.0 / (2.5 - clamp(leaky_relu(x * 0.5, 0.125), -1, 6)));
  expect_text(g, R"(graph numbers(x: bf16[M, 8]) {
  c0 = constant 0.5
  t2 = mul x, c0
  c1 = constant 0.125
  t4 = leaky_relu t2, c1
  c2 = constant -1
  c3 = constant 6
  t7 = clamp t4, c2, c3
  c4 = constant 2.5
  t9 = sub c4, t7
  c5 = constant 1
  t11 = div c5, t9
  return t11 as y
}
)");
}

TEST(Builder, NumbersAreLimitsToo) {
  Graph g("limits");
  const auto x = g.input("x", DType::bf16, {M, 8});
  g.output("y", max(min(x, 6), 0.5));
  expect_text(g, R"(graph limits(x: bf16[M, 8]) {
  c0 = constant 6
  t2 = min x, c0
  c1 = constant 0.5
  t4 = max t2, c1
  return t4 as y
}
)");
}

TEST(Builder, InputsMadeLateStillComeFirst) {
  Graph g("late");
  const auto x = g.input("x", DType::f32, {M, 4});
  const auto h = exp(x);
  g.output("h", h);
  const auto alpha = g.scalar("alpha");
  const auto t = h * alpha;
  const auto b = g.input("b", DType::f32, {4});
  g.output("y", t + b);
  EXPECT_EQ(h.shape(), (std::vector<Dim>{M, 4}));
  expect_text(g, R"(graph late(x: f32[M, 4], alpha: scalar, b: f32[4]) {
  t1 = exp x
  t3 = mul t1, alpha
  t5 = add t3, b
  return t1 as h, t5 as y
}
)");
}

TEST(Builder, NamesAreSanitisedAndMadeUnique) {
  Graph g("gelu-tanh 2");
  const auto a = g.input("x.weight", DType::f32, {2, 2});
  const auto b = g.input("x weight", DType::f32, {2, 2});
  const auto c = g.input("exp", DType::f32, {2, 2});
  g.output("y", a + b);
  g.output("y", a + c);
  g.output("exp_", c);
  expect_text(g, R"(graph gelu_tanh_2(x_weight: f32[2, 2], x_weight_2: f32[2, 2], exp_: f32[2, 2]) {
  t3 = add x_weight, x_weight_2
  t4 = add x_weight, exp_
  return t3 as y, t4 as y_2, exp_ as exp__2
}
)");
}

TEST(Builder, KeepsStridesAndResultDtype) {
  Graph g("types");
  const Dim s("S");
  const auto x = g.input("x", DType::bf16, {M, 64}, {s, 1});
  const auto w = g.input("w", DType::bf16, {64, 32});
  const auto y = matmul(x, w, DType::f32);
  EXPECT_EQ(y.dtype(), DType::f32);
  EXPECT_EQ(matmul(x, w).dtype(), DType::bf16);
  g.output("y", select(lt(y, y), y, y));
  EXPECT_EQ(ir::parse(g.str()), g.ir());
  EXPECT_NE(g.str().find("x: bf16[M, 64] strides [S, 1]"), std::string::npos) << g.str();
}

TEST(Builder, ParsedGraphsAreTheSame) {
  const std::string text = "graph g(x: f32[M]) {\n  y = exp x\n  return y\n}\n";
  EXPECT_EQ(Graph::parse(text).str(), text);
  EXPECT_THROW(Graph::parse("graph"), ParseError);
}

TEST(Builder, OperandsOfDifferentGraphsAreRefused) {
  Graph g("one"), h("two");
  const auto x = g.input("x", DType::f32, {4}), y = h.input("y", DType::f32, {4});
  EXPECT_EQ(message_of<ArgumentError>([&] { x + y; }),
            "add expects operands of one graph, got 'x' of graph 'one' and 'y' of graph 'two'");
  EXPECT_EQ(message_of<ArgumentError>([&] { h.output("z", x); }),
            "output 'z' of graph 'two' expects a value of it, got 'x' of graph 'one'");
}

TEST(Builder, TypingErrorsSayWhatCame) {
  Graph g("errors");
  const auto x = g.input("x", DType::bf16, {M, 4}), y = g.input("y", DType::f32, {M, 4});
  const auto v = g.input("v", DType::f32, {4});
  EXPECT_NE(message_of<GraphError>([&] { x + y; }).find("x: bf16[M, 4] and y: f32[M, 4]"),
            std::string::npos);
  EXPECT_NE(message_of<GraphError>([&] { matmul(y, y); }).find("K is 4 and M"), std::string::npos);
  EXPECT_NE(message_of<GraphError>([&] { transpose(v); }).find("at least 2 dims, got f32[4]"),
            std::string::npos);
  EXPECT_EQ(message_of<ArgumentError>([&] { apply("gelu_erg", {x}); }),
            "apply expects the name of an elementwise op, got 'gelu_erg' (did you mean "
            "'gelu_erf'?)");
  EXPECT_EQ(message_of<GraphError>([&] { apply("exp", {}); }), "exp expects 1 operand, got 0");
  EXPECT_EQ(message_of<GraphError>([&] { apply("exp", {x, x}); }), "exp expects 1 operand, got 2");
  EXPECT_THROW(g.input("z", DType::f32, {M, 4}, {1}), GraphError);
  EXPECT_THROW(g.input("z", DType::f32, {-1}), GraphError);
}

TEST(Builder, AFailedCallLeavesTheGraphAsItWas) {
  Graph g("errors");
  const auto x = g.input("x", DType::bf16, {M, 4});
  const std::string before = g.str();
  EXPECT_THROW(matmul(x, x), GraphError);
  EXPECT_THROW(g.input("z", DType::f32, {-1}), GraphError);
  EXPECT_THROW(g.constant(std::numeric_limits<double>::quiet_NaN()), GraphError);
  EXPECT_EQ(g.str(), before);
}

TEST(Builder, ConstantsMustFitFloat32) {
  Graph g("constants");
  EXPECT_THROW(g.constant(1e39), GraphError);
  EXPECT_THROW(g.constant(-1e300), GraphError);
  const auto big = g.constant(3.4e38);
  const auto infinite = g.constant(-std::numeric_limits<double>::infinity());
  g.output("y", big + infinite);
  EXPECT_EQ(ir::parse(g.str()), g.ir());
}

TEST(Builder, BuildsProductsWithBlockScales) {
  Graph g("scaled");
  const auto x = g.input("x", DType::e4m3, {M, 512}), w = g.input("w", DType::e4m3, {8, 256, 512});
  const auto sx = g.input("sx", DType::f32, {M, 4}), sw = g.input("sw", DType::f32, {8, 2, 4});
  const auto v = g.input("v", DType::e4m3, {300, 512}), sv = g.input("sv", DType::f32, {300, 4});
  const auto ends = g.input("ends", DType::i32, {8});
  g.output("y", scaled_matmul(x, transpose(v), sx, sv, DType::bf16));
  g.output("z", scaled_grouped_matmul(x, transpose(w), ends, sx, sw));
  EXPECT_EQ(ir::parse(g.str()), g.ir());
  EXPECT_EQ(message_of<GraphError>([&] { scaled_matmul(x, transpose(v), sv, sx); }),
            "scaled_matmul expects scales of x: e4m3[M, 512] as f32 [.., M, 512 / 128 rounded up], "
            "got sv: f32[300, 4]: each row needs one");
}

TEST(Builder, SizesThatNoInputGivesAreRefused) {
  Graph g("sizes");
  const auto x = g.input("x", DType::f32, {1, 4});
  const auto message = message_of<GraphError>([&] { broadcast(x, {M, 4}); });
  EXPECT_EQ(message,
            "broadcast expects size symbols that the type of an input uses, got 'M' in "
            "[M, 4]; nothing else could give it a value");
  g.input("y", DType::f32, {M, 4});
  EXPECT_EQ(broadcast(x, {M, 4}).shape(), (std::vector<Dim>{M, 4}));
}

}  // namespace
}  // namespace epifuse
