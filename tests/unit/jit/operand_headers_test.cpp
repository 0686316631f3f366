// The instructions that the Hopper GEMM's configs ask for are among the embedded headers.
#include <gtest/gtest.h>

#include <string>

#include "codegen/sm90/dense.h"
#include "ir/text.h"
#include "jit/jit.h"

namespace epifuse::jit {
namespace {

using codegen::sm90::OperandFormat;

bool is_embedded(const std::string& name) {
  for (const Header& header : embedded_headers()) {
    if (header.name == name) return true;
  }
  return false;
}

TEST(OperandHeaders, EveryConfigOfEveryFormatFindsItsInstruction) {
  for (const OperandFormat& format : codegen::sm90::operand_formats()) {
    const std::string type(name(format.dtype));
    const plan::Plan plan =
        plan::make_plan(ir::parse("graph g(x: " + type + "[M, K], w: " + type +
                                  "[N, K]) {\n  y = matmul x, w^T\n" + "  return y\n}\n"),
                        {});
    const auto& step = std::get<plan::FusedGemm>(plan.steps.front());
    const auto configs = codegen::sm90::configs(step, *targets::find_target("sm_90a"));
    ASSERT_FALSE(configs.empty()) << format.name;
    for (const codegen::sm90::Config& config : configs) {
      const int narrow = config.two_widths ? codegen::sm90::kNarrower : 0;
      for (const int columns : {config.tile_n, config.tile_n - narrow}) {
        const std::string header = codegen::sm90::wgmma_header(step.gemm, columns);
        EXPECT_TRUE(is_embedded(header)) << header;
      }
    }
  }
}

}  // namespace
}  // namespace epifuse::jit
