// Measures every way to run the fused steps of a plan on given tensors, and keeps the best.
#include "backends/cuda/tuner.h"

#include <fmt/format.h>

#include <algorithm>

#include "backends/cuda/memory.h"
#include "backends/cuda/run_builder.h"
#include "backends/cuda/timing.h"
#include "epifuse/error.h"
#include "plan/epilogue.h"
#include "tune/rank.h"

namespace epifuse::cuda {
namespace {

using codegen::Bound;
using codegen::BoundTensor;

constexpr int kRounds = 12, kBlocks = 3;
constexpr double kMostSeconds = 4.0, kBlockSeconds = 0.05;

// The bytes that a tensor lies in, from the first to behind the last.
struct Extent {
  std::uintptr_t begin = 0, end = 0;
  bool overlaps(const Extent& other) const { return begin < other.end && other.begin < end; }
};

Extent extent(const BoundTensor& tensor, DType dtype) {
  std::int64_t first = tensor.layout.offset, last = tensor.layout.offset;
  for (std::size_t d = 0; d < tensor.layout.shape.size(); ++d) {
    if (tensor.layout.shape[d] == 0) return {};
    const std::int64_t reach = (tensor.layout.shape[d] - 1) * tensor.layout.strides[d];
    (reach < 0 ? first : last) += reach;
  }
  const auto data = reinterpret_cast<std::uintptr_t>(tensor.data);
  const auto bytes = static_cast<std::int64_t>(size_bytes(dtype));
  return {data + static_cast<std::uintptr_t>(first * bytes),
          data + static_cast<std::uintptr_t>((last + 1) * bytes)};
}

class Tuner {
 public:
  Tuner(const Prepared& prepared, LateKernels& late, Context& context, const Bound& bound)
      : prepared_(prepared), late_(late), context_(context), bound_(bound) {}

  std::vector<std::string> run() {
    reserve_workspace();
    run_all();  // what later steps read is there from now on
    std::vector<std::string> lines;
    for (std::size_t i = 0; i < prepared_.steps.size(); ++i) {
      if (prepared_.steps[i].kind != StepKind::family) continue;
      std::string line = tune_step(i);
      if (!line.empty()) lines.push_back(std::move(line));
    }
    return lines;
  }

 private:
  ChoiceRules forced(const ForcedChoice& choice) const {
    ChoiceRules rules = context_.rules();
    rules.forced = &choice;
    return rules;
  }

  // Split steps need the most; temporaries of the plan lie at the same place for every choice.
  void reserve_workspace() {
    std::size_t bytes = workspace_bytes(prepared_, late_, context_.rules(), bound_);
    for (std::size_t i = 0; i < prepared_.steps.size(); ++i) {
      const ForcedChoice split{i, std::string(tune::kProductAndTail)};
      bytes = std::max(bytes, workspace_bytes(prepared_, late_, forced(split), bound_));
    }
    workspace_ = DeviceBuffer(Device::require(), bytes);
  }

  void run_all() {
    for (const Action& action :
         build_run(prepared_, late_, context_, bound_, static_cast<char*>(workspace_.data()))) {
      cuda::run(context_.device(), action, nullptr);
    }
    synchronize(context_.device());
  }

  // Every way to run a step, by name.
  std::vector<std::string> ways(std::size_t step, const StepChoice& usual) {
    std::vector<std::string> names;
    late_.compile_all(prepared_, step, *usual.kernels);
    for (const codegen::GemmConfig& config : usual.kernels->candidates) {
      std::string name = candidate_name(*usual.kernels, config);
      if (late_.candidate(prepared_, step, *usual.kernels, name) != nullptr) {
        names.push_back(std::move(name));
      }
    }
    names.emplace_back(tune::kProductAndTail);
    return names;
  }

  std::string tune_step(std::size_t step) {
    // Without the choices of before: the variant, and whether there is a choice at all.
    const StepChoice usual = choose_step(prepared_, step, late_, bound_, {context_.limits()});
    if (usual.expected_us == 0) return "";
    const std::vector<std::string> names = ways(step, usual);
    std::vector<std::vector<Action>> actions;
    for (const std::string& name : names) {
      const ForcedChoice choice{step, name};
      actions.push_back(build_step(prepared_, step, late_, context_, forced(choice), bound_,
                                   static_cast<char*>(workspace_.data())));
    }
    std::vector<std::function<void()>> runs;
    for (const std::vector<Action>& each : actions) {
      runs.push_back([this, &each] {
        for (const Action& action : each) cuda::run(context_.device(), action, nullptr);
      });
    }
    const auto interleaved = time_interleaved(runs, kRounds, kMostSeconds);
    const auto sustained = time_sustained(runs, kBlockSeconds, kBlocks);
    const std::size_t best = tune::best_of_worse_ranks(interleaved, sustained);
    return keep(step, usual, names, best, interleaved, sustained);
  }

  std::string keep(std::size_t step, const StepChoice& usual, const std::vector<std::string>& names,
                   std::size_t best, const std::vector<double>& interleaved,
                   const std::vector<double>& sustained) {
    const plan::Plan& plan = prepared_.plan;
    const auto& gemm = std::get<plan::FusedGemm>(plan.steps[step]);
    const codegen::GemmSizes& sizes = usual.sizes;
    const std::string measured = fmt::format(
        "{:.1f} us measured and {:.1f} us sustained, product and tail {:.1f} and {:.1f}, the best "
        "of {} ways",
        interleaved[best], sustained[best], interleaved.back(), sustained.back(), names.size());
    const std::string what = fmt::format("{}x{}x{} {} {}", sizes.m, sizes.n, sizes.k,
                                         epifuse::name(gemm.gemm.a.dtype), label(gemm.epilogue));
    context_.tuned().add(plan, gemm, sizes, usual.kernels->variant, {names[best], measured}, what);
    return fmt::format("{} runs by {}: {}", what, names[best], measured);
  }

  const Prepared& prepared_;
  LateKernels& late_;
  Context& context_;
  const Bound& bound_;
  DeviceBuffer workspace_;
};

void check_aliases(const ir::Graph& graph, const Bound& bound) {
  const auto extent_of = [&](ir::ValueId id) {
    return extent(bound.tensors[static_cast<std::size_t>(id)], graph[id].type.dtype);
  };
  for (const ir::Output& output : graph.outputs) {
    for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
      const auto id = static_cast<ir::ValueId>(i);
      if (graph[id].op != ir::Op::input) continue;
      if (!extent_of(output.value).overlaps(extent_of(id))) continue;
      throw ArgumentError(
          fmt::format("tuning runs the graph many times, and output '{}' shares memory with input "
                      "'{}', which would change: bind another output",
                      output.name, graph[id].name));
    }
  }
}

}  // namespace

std::vector<std::string> tune(const Prepared& prepared, LateKernels& late, Context& context,
                              const Bound& bound) {
  check_aliases(prepared.plan.graph, bound);
  return Tuner(prepared, late, context, bound).run();
}

}  // namespace epifuse::cuda
