// An op that is one row of ops.def, the example of docs/adding-an-op.md, is all that an op is.
#include <gtest/gtest.h>

#include <cmath>
#include <sstream>
#include <string>

#include "added_op.h"
#include "base/text.h"
#include "check/op_accuracy.h"
#include "epifuse/program.h"
#include "ir/text.h"
#include "ir/words.h"
#include "plan/plan.h"

namespace epifuse {
namespace {

const ir::OpInfo& added() { return ir::info(ir::op_from_name(kAddedOp).value()); }

std::string layer() {
  return std::string("graph g(x: bf16[M, 64], w: bf16[64, 64], b: bf16[64]) {\n") +
         "  h = matmul x, w\n  t = add h, b\n  y = " + kAddedOp + " t\n  return y\n}\n";
}

TEST(AddedOp, IsAWordOfTheLanguage) {
  EXPECT_TRUE(ir::is_reserved_word(kAddedOp));
  const ir::Graph graph = ir::parse(layer());
  ir::verify(graph);
  EXPECT_EQ(ir::print(graph), layer());
}

TEST(AddedOp, HasTheValuesOfThePage) {
  std::istringstream lines(kAddedValues);
  int num_lines = 0;
  for (std::string op, x, equals, y; lines >> op >> x >> equals >> y; ++num_lines) {
    const double operand = parse_number(x).value(), expected = parse_number(y).value();
    const double got = added().reference(&operand);
    EXPECT_TRUE(got == expected || (std::isnan(got) && std::isnan(expected)) ||
                std::fabs(got - expected) <= 1e-13 * std::fabs(expected))
        << x << ": got " << number_text(got);
  }
  EXPECT_GE(num_lines, 5);
}

TEST(AddedOp, RunsOnTheCpuWithinItsBound) {
  const OpAccuracy found = measure_accuracy(added().op, Numerics::fast, Target::cpu(), 1 << 16);
  EXPECT_GT(found.num_samples, 1 << 16);
  EXPECT_EQ(found.num_refused, 0) << found.first_refused;
}

TEST(AddedOp, IsFusedAndLabelled) {
  const plan::Plan plan = plan::make_plan(ir::parse(layer()), {});
  ASSERT_EQ(plan.steps.size(), 1U);
  EXPECT_EQ(plan::label(plan.epilogue(0)), std::string("bias+") + kAddedOp);
}

TEST(AddedOp, IsPartOfGpuKernels) {
  const Target hopper{DeviceKind::cuda, "sm_90a"};
  const auto sources = compile(Graph::parse(layer()), hopper).sources();
  ASSERT_FALSE(sources.empty());
  EXPECT_NE(sources[0].second.find("tanh(log1p(exp("), std::string::npos) << sources[0].second;
}

}  // namespace
}  // namespace epifuse
