// Measures the throughput of op functions, as generated kernels contain them.
#include "op_cost.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <optional>
#include <random>

#include "backends/cuda/driver/kernel_launch.h"
#include "backends/cuda/driver/memory.h"
#include "backends/target.h"
#include "base/measure.h"
#include "codegen/epilogue_cuda.h"
#include "codegen/launch.h"
#include "epifuse/error.h"
#include "jit/jit.h"

namespace epifuse::cli {
namespace {

constexpr int kThreads = 1024;  // one block fills a multiprocessor's issue slots
constexpr int kRegisters = 8;   // independent values a thread
constexpr int kRounds = 256;    // applications to each
constexpr int kLaunches = 9;    // the median of these counts
constexpr double kLanes = 128;  // of a multiprocessor
constexpr float kLargestInput = 4.0f, kSmallestInput = 0.0625f;

// A result feeds back times zero: no round can be left out, and the operands stay what they are.
constexpr std::string_view kLoop = R"(
struct OpCostParams {
  const float* inputs;
  float* sums;
  long long* clocks;
  float zero;
  int rounds;
};

extern "C" __global__ void __launch_bounds__(kThreads, 1)
    epifuse_op_cost(const __grid_constant__ OpCostParams p) {
  using epifuse::generated::Epilogue;
  float x[kRegisters];
#pragma unroll
  for (int i = 0; i < kRegisters; ++i) x[i] = p.inputs[threadIdx.x + kThreads * i];
  __syncthreads();
  const long long start = clock64();
#pragma unroll 1
  for (int round = 0; round < p.rounds; ++round) {
#pragma unroll
    for (int i = 0; i < kRegisters; ++i) {
      epifuse::Operands<Epilogue> operands;
      if constexpr (Epilogue::Tiles::kCount > 0) operands.tile[0] = x[(i + 1) % kRegisters];
      if constexpr (Epilogue::Tiles::kCount > 1) operands.tile[1] = x[(i + 2) % kRegisters];
      float out[1];
      Epilogue::apply(x[i], operands, out);
      x[i] = fmaf(out[0], p.zero, x[i]);
    }
  }
  __syncthreads();
  if (threadIdx.x == 0) p.clocks[blockIdx.x] = clock64() - start;
  float sum = 0.0f;
#pragma unroll
  for (int i = 0; i < kRegisters; ++i) sum += x[i];
  p.sums[blockIdx.x * kThreads + threadIdx.x] = sum;
}
)";

struct OpCostParams {  // as in the text above
  jit::CuDevicePtr inputs, sums, clocks;
  float zero;
  int rounds;
};

// An epilogue that stores op(acc, other operands..), or the accumulator itself without an op.
plan::Epilogue epilogue_of(std::optional<ir::Op> op) {
  plan::Epilogue epilogue;
  epilogue.num_accumulators = 1;
  const int arity = op ? ir::info(*op).arity : 1;
  for (int i = 1; i < arity; ++i) {
    epilogue.loads.push_back({fmt::format("x{}", i), 0, DType::f32, plan::Access::tile});
  }
  if (op) {
    plan::Compute compute{*op};
    for (int i = 0; i < arity; ++i) compute.args[static_cast<std::size_t>(i)] = i;
    epilogue.computes.push_back(compute);
  }
  epilogue.stores.push_back(
      {"y", 0, DType::f32, plan::StoreKind::tile, op ? epilogue.first_compute() : 0});
  return epilogue;
}

bool takes_negative(ir::Op op) {
  const double negative[] = {-0.7, -0.3, 0.9};
  return !std::isnan(ir::info(op).reference(negative));
}

std::vector<float> inputs_of(std::optional<ir::Op> op) {
  std::mt19937_64 random(3);
  const bool both_signs = !op || takes_negative(*op);
  std::uniform_real_distribution<float> magnitude(kSmallestInput, kLargestInput);
  std::vector<float> inputs(std::size_t{kThreads} * kRegisters);
  for (float& x : inputs) {
    x = magnitude(random);
    if (both_signs && random() % 2 != 0) x = -x;
  }
  return inputs;
}

// Times compiled loops on all multiprocessors.
class Stopwatch {
 public:
  explicit Stopwatch(std::shared_ptr<const cuda::Device> device)
      : device_(std::move(device)),
        modules_(device_),
        num_blocks_(static_cast<std::size_t>(device_->info().num_sms)),
        inputs_(device_, std::size_t{kThreads} * kRegisters * sizeof(float)),
        sums_(device_, num_blocks_ * kThreads * sizeof(float)),
        clocks_(device_, num_blocks_ * sizeof(long long)) {}

  // Clocks of a whole loop: the median over multiprocessors and launches.
  double clocks(const std::shared_ptr<const jit::Binary>& binary, std::optional<ir::Op> op) {
    const std::vector<float> inputs = inputs_of(op);
    inputs_.copy_from_host(inputs.data(), inputs_.size_bytes());
    const OpCostParams params{inputs_.pointer(), sums_.pointer(), clocks_.pointer(), 0.0f, kRounds};
    cuda::KernelCall call;
    call.function = modules_.get(binary, "epifuse_op_cost", 0);
    call.grid = static_cast<unsigned>(num_blocks_);
    call.block = kThreads;
    call.params.resize(sizeof params);
    std::memcpy(call.params.data(), &params, sizeof params);
    std::vector<double> medians;
    for (int launch = 0; launch < kLaunches; ++launch) {
      cuda::run(*device_, call, nullptr);
      cuda::synchronize(*device_);
      std::vector<long long> clocks(num_blocks_);
      clocks_.copy_to_host(clocks.data(), clocks_.size_bytes());
      medians.push_back(median(std::vector<double>(clocks.begin(), clocks.end())));
    }
    return median(std::move(medians));
  }

 private:
  std::shared_ptr<const cuda::Device> device_;
  cuda::Modules modules_;
  std::size_t num_blocks_;
  cuda::DeviceBuffer inputs_, sums_, clocks_;
};

}  // namespace

codegen::KernelSource op_cost_source(std::optional<ir::Op> op, Numerics numerics,
                                     std::string_view arch) {
  codegen::KernelSource source;
  source.entry = "epifuse_op_cost";
  source.arch = arch;
  source.text = fmt::format(
      "#include \"kernels/common/element.cuh\"\n#include \"kernels/common/math.cuh\"\n"
      "#include \"kernels/common/operands.cuh\"\n\n"
      "namespace epifuse::generated {{\n\n{}\n}}  // namespace epifuse::generated\n\n"
      "constexpr int kThreads = {}, kRegisters = {};\n{}",
      codegen::epilogue_cuda(epilogue_of(op), numerics), kThreads, kRegisters, kLoop);
  return source;
}

std::vector<double> measure_clocks(const std::vector<std::pair<ir::Op, Numerics>>& ops) {
  const auto device = cuda::Device::require();
  const std::string_view arch = target_info(Target::cuda()).name;
  std::vector<codegen::KernelSource> sources{op_cost_source(std::nullopt, Numerics::fast, arch)};
  for (const auto& [op, numerics] : ops) sources.push_back(op_cost_source(op, numerics, arch));
  jit::Jit jit(jit::KernelCache(jit::KernelCache::default_folder()));
  const auto binaries = jit.get(sources);
  for (std::size_t i = 0; i < binaries.size(); ++i) {
    if (binaries[i]->problems.empty()) continue;
    throw CompileError(binaries[i]->problems[0], sources[i].text, binaries[i]->log);
  }
  Stopwatch stopwatch(device);
  const double empty = stopwatch.clocks(binaries[0], std::nullopt);
  constexpr double kResults = double{kThreads} * kRegisters * kRounds;
  std::vector<double> clocks;
  for (std::size_t i = 0; i < ops.size(); ++i) {
    const double whole = stopwatch.clocks(binaries[i + 1], ops[i].first);
    clocks.push_back(std::max(0.0, whole - empty) / kResults * kLanes);
  }
  return clocks;
}

}  // namespace epifuse::cli
