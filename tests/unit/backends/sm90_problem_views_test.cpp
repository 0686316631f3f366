// The views of problems as text give the numbers that bound tensors of the same sizes give.
#include "codegen/problem_views.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cctype>
#include <map>

#include "backends/backend.h"
#include "codegen/matrix_view.h"
#include "codegen/pointer_arrays.h"
#include "codegen/sm90/dense.h"
#include "ir/text.h"
#include "passes/pipeline.h"

namespace epifuse::codegen {
namespace {

using Numbers = std::map<std::string, std::int64_t>;

// Sums of products of names, numbers and parentheses.
class Calculator {
 public:
  Calculator(std::string text, const Numbers& names) : names_(names) {
    for (const char c : text) {
      if (c != ' ') text_ += c;
    }
  }
  std::int64_t run() {
    const std::int64_t result = sum();
    EXPECT_EQ(at_, text_.size()) << text_;
    return result;
  }

 private:
  bool take(char c) {
    const bool found = at_ < text_.size() && text_[at_] == c;
    at_ += found ? 1U : 0U;
    return found;
  }
  std::int64_t sum() {
    std::int64_t total = take('-') ? -product() : product();
    while (true) {
      if (take('+')) {
        total += product();
      } else if (take('-')) {
        total -= product();
      } else {
        return total;
      }
    }
  }
  std::int64_t product() {
    std::int64_t total = factor();
    while (take('*')) total *= factor();
    return total;
  }
  std::int64_t factor() {
    if (take('(')) {
      const std::int64_t inner = sum();
      EXPECT_TRUE(take(')')) << text_;
      return inner;
    }
    std::string word;
    while (at_ < text_.size() && std::isalnum(static_cast<unsigned char>(text_[at_])) != 0) {
      word += text_[at_++];
    }
    if (std::isdigit(static_cast<unsigned char>(word.at(0))) != 0) return std::stoll(word);
    return names_.at(word);
  }

  std::string text_;
  const Numbers& names_;
  std::size_t at_ = 0;
};

// One problem: addresses that say which tensor is meant, rows 5 elements longer than they need be.
struct Problem {
  Problem(const plan::Plan& plan, const Sizes& sizes) {
    const ProblemViews views(plan.graph);
    const std::vector<std::string> symbols = problem_symbols(plan.graph);
    for (std::size_t i = 0; i < symbols.size(); ++i) {
      names[fmt::format("size{}", i)] = sizes.at(symbols[i]);
    }
    const std::vector<ir::ValueId> tensors = problem_tensors(plan.graph);
    for (std::size_t i = 0; i < tensors.size(); ++i) {
      const ir::Node& node = plan.graph[tensors[i]];
      const bool is_input = node.op == ir::Op::input;
      TensorView view{
          address(i), node.type.dtype, ir::eval(node.type.shape, sizes), {}, DeviceKind::cpu};
      if (is_input && !node.type.strides.empty()) {
        view.strides = ir::eval_strides(node.type.strides, node.type.shape, sizes);
      }
      if (const auto dense = views.dense_row_stride(static_cast<int>(i))) {
        const std::int64_t stride = Calculator(*dense, names).run() + 5;
        names[fmt::format("stride{}", i)] = stride;
        view.strides = {stride, 1};
      }
      std::string name = node.name;
      if (!is_input) name = plan.graph.outputs[i - num_inputs(plan.graph)].name;
      bindings.emplace_back(name, view);
    }
    for (const ir::Node& node : plan.graph.nodes) {
      if (node.op == ir::Op::scalar) bindings.emplace_back(node.name, 1.0);
    }
    bound = backends::bind(plan, bindings, DeviceKind::cpu);
  }

  static std::size_t num_inputs(const ir::Graph& graph) {
    return problem_tensors(graph).size() - graph.outputs.size();
  }
  static char* address(std::size_t tensor) { return reinterpret_cast<char*>((tensor + 1) << 32); }

  Numbers names;
  std::vector<Binding> bindings;
  Bound bound;
};

void expect_same(const ViewText& text, const MatrixView& view, const Numbers& names) {
  SCOPED_TRACE(text.name);
  const auto number = [&](const std::string& expression) {
    return Calculator(expression, names).run();
  };
  const auto bytes = static_cast<std::int64_t>(size_bytes(text.dtype)) / (text.is_paired ? 2 : 1);
  EXPECT_EQ(Problem::address(static_cast<std::size_t>(text.tensor)) + number(text.offset) * bytes,
            view.data);
  EXPECT_EQ(number(text.rows), view.rows);
  EXPECT_EQ(number(text.cols), view.cols);
  const std::int64_t row_stride = number(text.row_stride) / (text.is_paired ? 2 : 1);
  if (view.rows > 1) {
    EXPECT_EQ(row_stride, view.row_stride);
  }
  if (view.cols > 1) {
    EXPECT_EQ(number(text.col_stride), view.col_stride);
  }
}

void check(const char* text, const Sizes& sizes) {
  const ir::Graph graph = passes::run_all(ir::parse(text), Numerics::fast);
  const plan::Plan plan = plan::make_plan(graph, {});
  const auto no = why_not_pointer_arrays(plan);
  ASSERT_FALSE(no.has_value()) << no->sentence;
  const Problem problem(plan, sizes);
  for (const bool unpaired : {false, true}) {
    const plan::FusedGemm step =
        sm90::as_compiled(std::get<plan::FusedGemm>(plan.steps.front()), {.unpaired = unpaired});
    plan::WhyNot why;
    const auto views = gemm_views(plan, step, problem.bound, &why);
    ASSERT_TRUE(views.has_value()) << why.sentence;
    const ProductViews texts = *product_views(plan, step);
    expect_same(texts.a, views->a, problem.names);
    expect_same(texts.b, views->b, problem.names);
    if (step.gemm.gating != plan::Gating::none) {
      expect_same(texts.second_b, views->second_b, problem.names);
    }
    for (std::size_t i = 0; i < texts.loads.size(); ++i) {
      if (step.epilogue.loads[i].access == plan::Access::parameter) continue;
      expect_same(texts.loads[i], views->loads[i], problem.names);
    }
    for (std::size_t i = 0; i < texts.stores.size(); ++i) {
      expect_same(texts.stores[i], views->stores[i], problem.names);
    }
  }
}

TEST(ProblemViews, OfALayerWithEveryKindOfOperand) {
  check(
      "graph g(x: bf16[M, K], w: bf16[N, K], b: bf16[N], c: f32[M, 1], r: bf16[M, N], e: f32[],\n"
      "        s: scalar) {\n"
      "  h = matmul x, w^T -> f32\n  b1 = cast b -> f32\n  t = add h, b1\n  u = mul t, c\n"
      "  v = mul u, e\n  z = mul v, s\n  r1 = cast r -> f32\n  y0 = add z, r1\n"
      "  y = cast y0 -> bf16\n  return y\n}\n",
      {{"M", 12}, {"N", 22}, {"K", 32}});
}

TEST(ProblemViews, OfTransposedSlicedAndStridedOperands) {
  check(
      "graph g(x: bf16[K, M], w: bf16[N, 2*K+1], b: bf16[2*N], r: bf16[N, M] strides [1, L]) {\n"
      "  xt = transpose x\n  w1 = slice w [:, K+1:]\n  h = matmul xt, w1^T\n"
      "  b1 = slice b [1::2]\n  t = add h, b1\n  r1 = transpose r\n  y = add t, r1\n"
      "  return y\n}\n",
      {{"M", 12}, {"N", 22}, {"K", 32}, {"L", 40}});
}

constexpr const char* kGate = "  g = silu g0\n  y = mul g, u0\n  return h, y\n}\n";

TEST(ProblemViews, OfGatesInEveryLayout) {
  const Sizes sizes{{"M", 12}, {"I", 22}, {"K", 32}};
  for (const char* product :
       {"w: bf16[2*I, K]) {\n  h = matmul x, w^T\n", "w: bf16[K, 2*I]) {\n  h = matmul x, w\n"}) {
    for (const char* slices : {"  g0 = slice h [:, ::2]\n  u0 = slice h [:, 1::2]\n",
                               "  g0 = slice h [:, :I]\n  u0 = slice h [:, I:]\n"}) {
      SCOPED_TRACE(fmt::format("{}{}", product, slices));
      check(fmt::format("graph g(x: bf16[M, K], {}{}{}", product, slices, kGate).c_str(), sizes);
    }
  }
  check(
      "graph g(x: bf16[M, K], wg: bf16[I, K], wu: bf16[I, K]) {\n  g0 = matmul x, wg^T\n"
      "  u0 = matmul x, wu^T\n  g = silu g0\n  y = mul g, u0\n  return y\n}\n",
      sizes);
}

std::string reason(const char* text) {
  const auto no =
      why_not_pointer_arrays(plan::make_plan(passes::run_all(ir::parse(text), Numerics::fast), {}));
  return no ? no->code : "";
}

TEST(ProblemViews, WhatIsNotOneLaunch) {
  EXPECT_EQ(reason("graph g(x: bf16[M, K]) {\n  y = relu x\n  return y\n}"), "several_kernels");
  EXPECT_EQ(reason("graph g(x: bf16[M, K], w: bf16[K, K]) {\n  h = matmul x, w\n"
                   "  i = matmul h, w\n  y = relu i\n  return y\n}"),
            "several_kernels");
  EXPECT_EQ(reason("graph g(x: bf16[B, M, K], w: bf16[B, K, N]) {\n  h = matmul x, w\n"
                   "  y = relu h\n  return y\n}"),
            "not_matrices");
  EXPECT_EQ(reason("graph g(x: bf16[M, K], w: bf16[K, N]) {\n  h = matmul x, w\n"
                   "  y = row_max h\n  return y\n}"),
            "reduces");
}

}  // namespace
}  // namespace epifuse::codegen
