#include "copies_run.h"

#include <fmt/format.h>

#include <memory>
#include <vector>

#include "backends/cuda/backend.h"
#include "backends/cuda/choose/ways.h"
#include "backends/cuda/driver/context.h"
#include "backends/cuda/prepare/late_kernels.h"
#include "backends/cuda/prepare/prepare.h"
#include "backends/cuda/run/run_builder.h"
#include "bench_options.h"
#include "jit/jit.h"

namespace epifuse::cli {
namespace {

// Everything that its launches need, prepared once.
class Copies {
 public:
  Copies(const plan::Plan& plan, std::span<const Binding> tensors)
      : target_(require_target()),
        jit_(std::make_shared<jit::Jit>(jit::KernelCache(jit::KernelCache::default_folder()))),
        context_(cuda::Device::require(), target_),
        prepared_(cuda::prepare_steps(plan, target_, *jit_, true, context_.profile())),
        late_(target_, jit_, true, context_.profile()),
        bound_(backends::bind(prepared_.plan, tensors, DeviceKind::cuda)) {}

  // What is measured of them; false where the step does not run so.
  bool prepare(CopiesRun& run) {
    if (prepared_.steps.size() != 1 || prepared_.steps[0].kind != cuda::StepKind::family) {
      return false;
    }
    const cuda::ChoiceRules untuned{context_.profile()}, rules = cuda::forced(untuned, way_);
    const cuda::StepChoice choice = cuda::choose_step(prepared_, 0, late_, bound_, rules);
    if (!choice.behind_copies || choice.why_split) return false;
    run.config = fmt::format("{}, behind copies of misaligned operands",
                             codegen::print(choice.behind_copies->kernel->config));
    run.expected_us = choice.behind_copies->expected_us;
    const cuda::StepChoice usual = cuda::choose_step(prepared_, 0, late_, bound_, untuned);
    run.is_chosen = usual.behind_copies && !usual.why_split;
    workspace_ = cuda::DeviceBuffer(cuda::Device::require(),
                                    cuda::workspace_bytes(prepared_, late_, rules, bound_));
    actions_ = cuda::build_step(prepared_, 0, late_, context_, rules, bound_,
                                static_cast<char*>(workspace_.data()));
    return true;
  }

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
  const cuda::ForcedChoice way_{0, std::string(tune::kOperandsFirst)};
  cuda::DeviceBuffer workspace_;
  std::vector<cuda::Action> actions_;
};

}  // namespace

std::optional<CopiesRun> copies_run(const plan::Plan& plan, std::span<const Binding> tensors) {
  const auto copies = std::make_shared<Copies>(plan, tensors);
  CopiesRun out;
  if (!copies->prepare(out)) return std::nullopt;
  out.run = [copies] { copies->run(); };
  return out;
}

}  // namespace epifuse::cli
