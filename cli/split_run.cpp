#include "split_run.h"

#include <fmt/format.h>

#include <memory>

#include "backends/cuda/backend.h"
#include "backends/cuda/driver/context.h"
#include "backends/cuda/prepare/late_kernels.h"
#include "backends/cuda/prepare/prepare.h"
#include "backends/cuda/run/run_builder.h"
#include "bench_options.h"
#include "epifuse/error.h"
#include "jit/jit.h"
#include "passes/pipeline.h"

namespace epifuse::cli {
namespace {

// Everything that its launches need, prepared once.
class SplitRun {
 public:
  SplitRun(const plan::Plan& plan, std::span<const Binding> tensors)
      : target_(require_target()),
        jit_(std::make_shared<jit::Jit>(jit::KernelCache(jit::KernelCache::default_folder()))),
        context_(cuda::Device::require(), target_),
        prepared_(cuda::as_plan(
            plan, cuda::prepare_split(plan, std::get<plan::FusedGemm>(plan.steps.front()), target_,
                                      *jit_))),
        late_(target_, jit_),
        bound_(backends::bind(prepared_.plan, tensors, DeviceKind::cuda)),
        workspace_(cuda::Device::require(),
                   cuda::workspace_bytes(prepared_, late_, context_.rules(), bound_)),
        actions_(cuda::build_run(prepared_, late_, context_, bound_,
                                 static_cast<char*>(workspace_.data()))) {}

  void run() const {
    for (const cuda::Action& action : actions_) cuda::run(context_.device(), action, nullptr);
  }

 private:
  const targets::TargetInfo& target_;
  std::shared_ptr<jit::Jit> jit_;
  cuda::Context context_;
  const cuda::Prepared prepared_;
  cuda::LateKernels late_;
  const codegen::Bound bound_;
  const cuda::DeviceBuffer workspace_;
  const std::vector<cuda::Action> actions_;
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
