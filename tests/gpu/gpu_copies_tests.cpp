// Misaligned operands that are copied to aligned rows before their product, against float64.
#include <gtest/gtest.h>

#include <cctype>
#include <string>

#include "backends/pointer_arrays.h"
#include "check/verify_program.h"
#include "cli/tensors.h"
#include "compile/program_state.h"
#include "epifuse/epifuse.h"

namespace epifuse {
namespace {

struct Case {
  const char* name;
  const char* text;
  Sizes sizes;
};

const Case kCases[] = {
    {"rows along K",
     "graph g(x: bf16[M, K], w: bf16[N, K], b: bf16[N]) {\n"
     "  h = matmul x, w^T\n  t = add h, b\n  y = silu t\n  return y\n}\n",
     {{"M", 2000}, {"N", 1000}, {"K", 3001}}},
    {"matrices of a batch off",
     "graph g(x: bf16[5, M, K], w: bf16[5, N, K], b: bf16[N]) {\n"
     "  h = matmul x, w^T\n  t = add h, b\n  y = silu t\n  return y\n}\n",
     {{"M", 33}, {"N", 1991}, {"K", 962}}},
    {"a batch, columns off",
     "graph g(x: bf16[3, M, K], w: bf16[3, K, N], b: bf16[N]) {\n"
     "  h = matmul x, w\n  t = add h, b\n  y = silu t\n  return y\n}\n",
     {{"M", 1001}, {"N", 777}, {"K", 1024}}},
    {"weights of all batches",
     "graph g(x: f16[3, M, K], w: f16[K, N], b: f16[N]) {\n"
     "  h = matmul x, w\n  t = add h, b\n  y = silu t\n  return y\n}\n",
     {{"M", 600}, {"N", 512}, {"K", 2003}}},
    {"one operand twice",
     "graph g(x: bf16[M, K]) {\n  h = matmul x, x^T\n  y = relu h\n  return y\n}\n",
     {{"M", 1000}, {"K", 3001}}},
    {"an operand that is a residual, too",
     "graph g(x: bf16[M, K], w: bf16[K, K]) {\n  h = matmul x, w\n  y = add h, x\n  return y\n}\n",
     {{"M", 1500}, {"K", 1501}}},
};

class GpuCopies : public ::testing::TestWithParam<Case> {};

TEST_P(GpuCopies, GiveTheRightResultAlsoWhenTensorsMove) {
  const Graph graph = Graph::parse(GetParam().text);
  const Program program = compile(graph, Target::cuda());
  const backends::Executable& executable = *program.state().executable;
  const backends::RunPlan plan = executable.plan_for(
      backends::bind_stand_ins(executable.plan(), GetParam().sizes, DeviceKind::cuda));
  ASSERT_FALSE(plan.how.empty());
  EXPECT_NE(plan.how.front().find("behind copies of misaligned operands"), std::string::npos)
      << plan.how.front() << ": " << plan.grounds.front();
  cli::HostTensors results(graph.ir(), GetParam().sizes, {});
  cli::TargetTensors here(results, program.target()), there(results, program.target());
  for (cli::TargetTensors* tensors : {&here, &there}) {
    tensors->poison_outputs();
    program.run(tensors->bindings());
    tensors->fetch_outputs();
    constexpr std::int64_t kChecked = 4096;
    for (const auto& verdict :
         verify_program(program, results.bindings(), tensors->bindings(), kChecked, 1)) {
      EXPECT_TRUE(verdict.ok()) << verdict.first_failure;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Operands, GpuCopies, ::testing::ValuesIn(kCases), [](const auto& each) {
  std::string name = each.param.name;
  std::erase_if(name, [](char c) { return std::isalnum(c) == 0; });
  return name;
});

}  // namespace
}  // namespace epifuse
