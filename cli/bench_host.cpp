#include "bench_host.h"

#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>

#include "backends/cuda/driver/device.h"
#include "backends/cuda/driver/memory.h"
#include "base/measure.h"
#include "codegen/family.h"
#include "epifuse/error.h"
#include "epifuse/program.h"
#include "jit/jit.h"
#include "passes/pipeline.h"
#include "plan/plan.h"
#include "targets/targets.h"
#include "tensors.h"

namespace epifuse::cli {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::size_t kConfigStep = 8;  // all would compile for minutes
constexpr int kLaunchBlock = 200, kLaunchBlocks = 25;
constexpr int kCallBlock = 20;                        // of a chain of layers
constexpr std::int64_t kM = 256, kN = 256, kK = 256;  // small: the host is slower than the device

double us_since(Clock::time_point start) { return seconds_since(start) * 1e6; }

constexpr const char* kActivations[] = {"silu", "gelu_tanh", "gelu_erf", "relu", "sigmoid", "tanh"};

Graph bias_activation(const char* activation, bool residual) {
  const Dim m("M");
  Graph graph("host");
  const Value x = graph.input("x", DType::bf16, {m, kK});
  const Value w = graph.input("w", DType::bf16, {kN, kK});
  Value y = apply(activation, {matmul(x, transpose(w)) + graph.input("b", DType::bf16, {kN})});
  if (residual) y = y + graph.input("r", DType::bf16, {m, kN});
  graph.output("y", y);
  return graph;
}

ResultRow row(const char* workload, double us) {
  ResultRow out{"host", workload};
  out.dtype = "bf16";
  out.epilogue = "bias+silu";
  out.numerics = "fast";
  out.contender = "epifuse";
  out.us = us;
  return out;
}

// Median time of one new kernel, compiled alone, cache or no cache.
double compile_us() {
  const auto nvrtc = jit::Nvrtc::open();
  if (!nvrtc) return 0;
  const targets::TargetInfo& target = targets::usual_target(DeviceKind::cuda);
  std::vector<double> us;
  for (const char* activation : kActivations) {
    for (const bool residual : {false, true}) {
      const Graph graph = bias_activation(activation, residual);
      const plan::Plan plan =
          plan::make_plan(passes::run_all(graph.ir(), Numerics::fast), CompileOptions{});
      const auto* step = std::get_if<plan::FusedGemm>(&plan.steps.at(0));
      if (step == nullptr) continue;
      const codegen::KernelFamily& family = codegen::all_families()[0];
      const std::vector<codegen::GemmConfig> configs = family.configs(*step, target);
      for (std::size_t i = 0; i < configs.size(); i += kConfigStep) {
        const Clock::time_point start = Clock::now();
        nvrtc->compile(family.source(plan, *step, configs[i], {}, target));
        us.push_back(us_since(start));
      }
    }
  }
  return median(std::move(us));
}

// Compiles in another process, so that this one meets a warm cache and nothing in memory.
void fill_cache(const Graph& graph) {
  const pid_t child = fork();
  if (child == 0) {
    int status = 1;
    try {
      compile(graph, Target::cuda());
      status = 0;
    } catch (const Error& error) {
      std::fputs(error.what(), stderr);
    }
    _exit(status);
  }
  int status = 0;
  if (child < 0 || waitpid(child, &status, 0) != child || status != 0) {
    throw DeviceError("the process that fills the kernel cache failed");
  }
}

// Layers one behind the other by one program, with activations that lie elsewhere at every call or
// stay.
class Layers {
 public:
  Layers(const Program& program, const std::shared_ptr<const cuda::Device>& device, int count)
      : program_(program) {
    for (int i = 0; i < count; ++i) {
      weights_.emplace_back(device, kN * kK * kBytes);
      biases_.emplace_back(device, kN * kBytes);
      weights_.back().fill(0);
      biases_.back().fill(0);
    }
    for (int i = 0; i <= count; ++i) {
      activations_.emplace_back(device, kM * kK * kBytes + kMoves * kMove);
      activations_.back().fill(0);
    }
    for (int i = 0; i < count; ++i) {
      const auto at = static_cast<std::size_t>(i);
      calls_.push_back({{"x", view(activations_[at], {kM, kK})},
                        {"w", view(weights_[at], {kN, kK})},
                        {"b", view(biases_[at], {kN})},
                        {"y", view(activations_[at + 1], {kM, kN})}});
    }
  }

  void run(bool moves) {
    if (moves) {
      const std::size_t offset = ++moved_ % kMoves * kMove;
      for (std::size_t i = 0; i < calls_.size(); ++i) {
        calls_[i].front().view.data = static_cast<char*>(activations_[i].data()) + offset;
        calls_[i].back().view.data = static_cast<char*>(activations_[i + 1].data()) + offset;
      }
    }
    for (const std::vector<Binding>& call : calls_) program_.run(call);
  }

 private:
  static constexpr std::size_t kBytes = 2, kMove = 512, kMoves = 1 << 13;
  static TensorView view(const cuda::DeviceBuffer& buffer, std::vector<std::int64_t> shape) {
    return {buffer.data(), DType::bf16, std::move(shape), {}, DeviceKind::cuda};
  }
  const Program& program_;
  std::vector<cuda::DeviceBuffer> weights_, biases_, activations_;
  std::vector<std::vector<Binding>> calls_;
  std::size_t moved_ = 0;
};

// Median host time of a layer.
double layer_us(const Program& program, const std::shared_ptr<const cuda::Device>& device,
                int count, bool moves) {
  Layers layers(program, device, count);
  layers.run(moves);
  std::vector<double> us;
  for (int block = 0; block < kLaunchBlocks; ++block) {
    cuda::synchronize(*device);
    const Clock::time_point begin = Clock::now();
    for (int i = 0; i < kCallBlock; ++i) layers.run(moves);
    us.push_back(us_since(begin) / (kCallBlock * count));
  }
  cuda::synchronize(*device);
  return median(std::move(us));
}

}  // namespace

std::vector<ResultRow> measure_host(const std::function<void()>& check) {
  const Graph graph = bias_activation("silu", false);
  fill_cache(graph);
  const auto device = cuda::Device::require();
  check();
  HostTensors host(graph.ir(), {{"M", kM}}, {});
  TargetTensors tensors(host, Target::cuda());

  const Clock::time_point start = Clock::now();
  const Program program = compile(graph, Target::cuda());
  program.run(tensors.bindings());
  const double first = us_since(start);
  cuda::synchronize(*device);

  std::vector<double> launches;
  for (int block = 0; block < kLaunchBlocks; ++block) {
    const Clock::time_point begin = Clock::now();
    for (int i = 0; i < kLaunchBlock; ++i) program.run(tensors.bindings());
    launches.push_back(us_since(begin) / kLaunchBlock);
    cuda::synchronize(*device);
  }
  std::vector<ResultRow> rows{row("compile", compile_us()), row("first_launch", first),
                              row("launch", median(std::move(launches)))};
  rows.push_back(row("layers_16", layer_us(program, device, 16, false)));
  rows.push_back(row("layers_16_moved", layer_us(program, device, 16, true)));
  rows.push_back(row("layers_48", layer_us(program, device, 48, false)));
  rows.push_back(row("layers_48_moved", layer_us(program, device, 48, true)));
  return rows;
}

}  // namespace epifuse::cli
