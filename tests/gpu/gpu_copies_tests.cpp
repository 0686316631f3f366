// Operands that are copied before their product, misaligned ones to aligned rows and those of 8
// bits that run along M or N along K, against float64.
#include <gtest/gtest.h>

#include <cctype>
#include <functional>
#include <string>

#include "backends/cuda/driver/memory.h"
#include "backends/pointer_arrays.h"
#include "check/verify_program.h"
#include "cli/tensors.h"
#include "compile/program_state.h"
#include "epifuse/epifuse.h"
#include "tests/gpu/captured_run.h"

namespace epifuse {
namespace {

constexpr const char* kMisaligned = "behind copies of misaligned operands";
constexpr const char* kOneAlongK = "behind a copy along K";
constexpr const char* kAlongK = "behind copies along K";

struct Case {
  const char* name;
  const char* text;
  Sizes sizes;
  const char* said = kMisaligned;
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
     {{"M", 2000}, {"N", 2048}, {"K", 2003}}},
    {"one operand twice",
     "graph g(x: bf16[M, K]) {\n  h = matmul x, x^T\n  y = relu h\n  return y\n}\n",
     {{"M", 1000}, {"K", 3001}}},
    {"an operand that is a residual, too",
     "graph g(x: bf16[M, K], w: bf16[K, K]) {\n  h = matmul x, w\n  y = add h, x\n  return y\n}\n",
     {{"M", 1500}, {"K", 1501}}},
    {"8 bits along M and N",
     "graph g(x: e5m2[K, M], w: e4m3[K, N], s: f32[M, 1], b: f32[N]) {\n"
     "  h = matmul x^T, w\n  t = mul h, s\n  u = add t, b\n  v = silu u\n"
     "  y = cast v -> bf16\n  return y\n}\n",
     {{"M", 2000}, {"N", 1992}, {"K", 3001}},
     kAlongK},
    {"integers along N, rows off 4 bytes",
     "graph g(x: i8[M, K], w: i8[K, N], s: f32[]) {\n"
     "  h = matmul x, w\n  y = mul h, s\n  return y\n}\n",
     {{"M", 4000}, {"N", 3991}, {"K", 4016}},
     kOneAlongK},
    {"a batch of 8 bits along N",
     "graph g(x: e4m3[6, M, K], w: e4m3[6, K, N], s: f32[]) {\n"
     "  h = matmul x, w\n  t = mul h, s\n  y = cast t -> bf16\n  return y\n}\n",
     {{"M", 1024}, {"N", 1040}, {"K", 2000}},
     kOneAlongK},
    {"8 bits with scales of blocks",
     "graph g(x: e4m3[K, M], w: e4m3[K, N], sx: f32[M, KB], sw: f32[NB, KB]) {\n"
     "  h = scaled_matmul x^T, w, sx, sw -> bf16\n  y = silu h\n  return y\n}\n",
     {{"M", 2000}, {"N", 2048}, {"K", 4096}, {"KB", 32}, {"NB", 16}},
     kAlongK},
    {"one operand of 8 bits twice",
     "graph g(x: e4m3[K, M], s: f32[]) {\n  h = matmul x^T, x\n  t = mul h, s\n"
     "  y = cast t -> bf16\n  return y\n}\n",
     {{"M", 2000}, {"K", 3000}},
     kOneAlongK},
};

class GpuCopies : public ::testing::TestWithParam<Case> {};

TEST_P(GpuCopies, GiveTheRightResultAlsoWhenTensorsMoveAndInAGraph) {
  const Graph graph = Graph::parse(GetParam().text);
  const Program program = compile(graph, Target::cuda());
  const backends::Executable& executable = *program.state().executable;
  const backends::RunPlan plan = executable.plan_for(
      backends::bind_stand_ins(executable.plan(), GetParam().sizes, DeviceKind::cuda));
  ASSERT_FALSE(plan.how.empty());
  EXPECT_NE(plan.how.front().find(GetParam().said), std::string::npos)
      << plan.how.front() << ": " << plan.grounds.front();
  cli::HostTensors results(graph.ir(), GetParam().sizes, {});
  cli::TargetTensors here(results, program.target()), there(results, program.target());
  const auto check = [&](cli::TargetTensors& tensors, const std::function<void()>& run) {
    tensors.poison_outputs();
    run();
    tensors.fetch_outputs();
    constexpr std::int64_t kChecked = 4096;
    for (const auto& verdict :
         verify_program(program, results.bindings(), tensors.bindings(), kChecked, 1)) {
      EXPECT_TRUE(verdict.ok()) << verdict.first_failure;
    }
  };
  for (cli::TargetTensors* tensors : {&here, &there}) {
    check(*tensors, [&] { program.run(tensors->bindings()); });
  }
  const auto device = cuda::Device::require();
  const CapturedRun captured(device, [&](Stream stream) { program.run(there.bindings(), stream); });
  check(there, [&] {
    cuda::synchronize(*device);  // the replay waits for no other stream
    captured.replay();
  });
}

INSTANTIATE_TEST_SUITE_P(Operands, GpuCopies, ::testing::ValuesIn(kCases), [](const auto& each) {
  std::string name = each.param.name;
  std::erase_if(name, [](char c) { return std::isalnum(c) == 0; });
  return name;
});

}  // namespace
}  // namespace epifuse
