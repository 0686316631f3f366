#include "copies_run.h"

#include <fmt/format.h>

#include <memory>

#include "backends/cuda/backend.h"
#include "backends/cuda/choose/ways.h"
#include "backends/cuda/prepare/late_kernels.h"
#include "backends/cuda/prepare/prepare.h"
#include "launches.h"

namespace epifuse::cli {
namespace {

class Copies {
 public:
  Copies(const plan::Plan& plan, std::span<const Binding> tensors)
      : prepared_(cuda::prepare_steps(plan, launches_.target, *launches_.jit, true, profile())),
        late_(launches_.target, launches_.jit, true, profile()),
        bound_(backends::bind(prepared_.plan, tensors, DeviceKind::cuda)) {}

  // What is measured of them; false where the step does not run so.
  bool prepare(CopiesRun& run) {
    if (prepared_.steps.size() != 1 || prepared_.steps[0].kind != cuda::StepKind::family) {
      return false;
    }
    const cuda::ChoiceRules untuned{profile()}, rules = cuda::forced(untuned, way_);
    const cuda::StepChoice choice = cuda::choose_step(prepared_, 0, late_, bound_, rules);
    if (!choice.behind_copies || choice.why_split) return false;
    run.config = fmt::format("{}, behind copies of misaligned operands",
                             codegen::print(choice.behind_copies->kernel->config));
    run.expected_us = choice.behind_copies->expected_us;
    const cuda::StepChoice usual = cuda::choose_step(prepared_, 0, late_, bound_, untuned);
    run.is_chosen = usual.behind_copies && !usual.why_split;
    launches_.workspace = cuda::DeviceBuffer(
        cuda::Device::require(), cuda::workspace_bytes(prepared_, late_, rules, bound_));
    launches_.actions = cuda::build_step(prepared_, 0, late_, launches_.context, rules, bound_,
                                         static_cast<char*>(launches_.workspace.data()));
    return true;
  }

  void run() const { launches_.run(); }

 private:
  const targets::DeviceProfile& profile() const { return launches_.context.profile(); }

  Launches launches_;
  const cuda::Prepared prepared_;
  cuda::LateKernels late_;
  const codegen::Bound bound_;
  const cuda::ForcedChoice way_{0, std::string(tune::kOperandsFirst)};
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
