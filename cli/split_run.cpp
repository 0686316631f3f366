#include "split_run.h"

#include <fmt/format.h>

#include <memory>

#include "backends/cuda/backend.h"
#include "backends/cuda/prepare/late_kernels.h"
#include "backends/cuda/prepare/prepare.h"
#include "epifuse/error.h"
#include "launches.h"
#include "passes/pipeline.h"

namespace epifuse::cli {
namespace {

class SplitRun {
 public:
  SplitRun(const plan::Plan& plan, std::span<const Binding> tensors)
      : prepared_(cuda::as_plan(
            plan, cuda::prepare_split(plan, std::get<plan::FusedGemm>(plan.steps.front()),
                                      launches_.target, *launches_.jit))),
        late_(launches_.target, launches_.jit),
        bound_(backends::bind(prepared_.plan, tensors, DeviceKind::cuda)) {
    cuda::Context& context = launches_.context;
    launches_.workspace = cuda::DeviceBuffer(
        cuda::Device::require(), cuda::workspace_bytes(prepared_, late_, context.rules(), bound_));
    launches_.actions = cuda::build_run(prepared_, late_, context, bound_,
                                        static_cast<char*>(launches_.workspace.data()));
  }

  void run() const { launches_.run(); }

 private:
  Launches launches_;
  const cuda::Prepared prepared_;
  cuda::LateKernels late_;
  const codegen::Bound bound_;
};

}  // namespace

const targets::TargetInfo& require_target() {
  const auto device = cuda::Device::require();
  const targets::TargetInfo* target = targets::find_target(cuda::detect());
  if (target != nullptr) return *target;
  throw UnavailableError(fmt::format("epifuse has no kernels for {}.", device->info().name));
}

std::optional<plan::Plan> plan_of_product(const Graph& graph) {
  plan::Plan plan = plan::make_plan(passes::run_all(graph.ir(), Numerics::fast), {});
  const auto* gemm =
      plan.steps.size() == 1 ? std::get_if<plan::FusedGemm>(&plan.steps.front()) : nullptr;
  if (gemm == nullptr || gemm->epilogue.reduces()) return std::nullopt;
  return plan;
}

std::function<void()> split_run(const plan::Plan& plan, std::span<const Binding> tensors) {
  const auto split = std::make_shared<const SplitRun>(plan, tensors);
  return [split] { split->run(); };
}

}  // namespace epifuse::cli
