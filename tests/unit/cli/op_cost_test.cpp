// The kernels that time ops: NVRTC takes them all. Needs no GPU.
#include "cli/op_cost.h"

#include <gtest/gtest.h>

#include "check/op_accuracy.h"
#include "jit/jit.h"

namespace epifuse::cli {
namespace {

TEST(OpCost, EveryLoopCompilesCleanly) {
  const auto nvrtc = jit::Nvrtc::open();
  ASSERT_NE(nvrtc, nullptr);
  std::vector<codegen::KernelSource> sources{
      op_cost_source(std::nullopt, Numerics::fast, "sm_90a")};
  for (const ir::Op op : measurable_ops()) {
    sources.push_back(op_cost_source(op, Numerics::fast, "sm_90a"));
    if (has_own_approx(op)) sources.push_back(op_cost_source(op, Numerics::approx, "sm_90a"));
  }
  for (const codegen::KernelSource& source : sources) {
    EXPECT_EQ(nvrtc->compile(source).problems, std::vector<std::string>()) << source.text;
  }
}

TEST(OpCost, TheLoopHoldsTheTextOfTheLevel) {
  const std::string fast = op_cost_source(ir::Op::tanh, Numerics::fast, "sm_90a").text;
  const std::string approx = op_cost_source(ir::Op::tanh, Numerics::approx, "sm_90a").text;
  EXPECT_NE(fast.find("return tanh(x0);"), std::string::npos) << fast;
  EXPECT_NE(approx.find("return tanh_approx(x0);"), std::string::npos) << approx;
}

}  // namespace
}  // namespace epifuse::cli
