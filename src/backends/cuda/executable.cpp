// A plan compiled for CUDA: prepares calls of it, and runs it.
#include "backends/cuda/backend.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <limits>
#include <mutex>
#include <shared_mutex>

#include "backends/cuda/choose/quick_tuner.h"
#include "backends/cuda/choose/size_class.h"
#include "backends/cuda/choose/tuner.h"
#include "backends/cuda/prepare/sources.h"
#include "backends/cuda/run/pointer_arrays.h"
#include "backends/cuda/run/prepared_run.h"
#include "backends/cuda/run/run_builder.h"
#include "backends/pointer_arrays.h"
#include "base/parallel.h"
#include "epifuse/error.h"
#include "jit/jit.h"
#include "targets/unused.h"

namespace epifuse::cuda {
namespace {

// The device at hand, where it runs the target.
std::optional<DeviceInfo> device_of(const targets::TargetInfo& target) {
  try {
    const std::optional<DeviceInfo> device = device_at_hand();
    if (device && runs(*device, target)) return device;
  } catch (const DeviceError&) {
    // A driver that fails here is no device to choose for.
  }
  return std::nullopt;
}

// Which toolchain measured choices belong to. Kernels that are there need no compiler.
std::string toolchain_of(const jit::Jit& jit) {
  try {
    return jit.toolchain();
  } catch (const UnavailableError&) {
    return "";
  }
}

class CudaExecutable : public backends::Executable {
 public:
  CudaExecutable(const plan::Plan& plan, const targets::TargetInfo& target,
                 const CompileOptions& options)
      : CudaExecutable(plan, target, options, device_of(target)) {}
  CudaExecutable(const plan::Plan& plan, const targets::TargetInfo& target,
                 const CompileOptions& options, const std::optional<DeviceInfo>& device)
      : target_(target),
        ahead_(device ? profile_of(*device, target) : targets::reference_profile(target)),
        jit_(std::make_shared<jit::Jit>(jit::KernelCache(jit::KernelCache::default_folder()))),
        family_(options.family),
        tune_(options.tune.value_or(Tune::off)),
        prepared_(
            prepare_steps(plan, target, *jit_, options.fuse, ahead_, family_,
                          device ? num_to_measure(tune_, num_threads(), plan.steps.size()) : 0)),
        problems_(prepared_, target, jit_),
        late_(target, jit_, options.compile_late, ahead_, family_) {}

  const plan::Plan& plan() const override { return prepared_.plan; }
  backends::RunPlan plan_for(const codegen::Bound& bound) const override;
  void prepare_for(const codegen::Bound& bound) const override;
  std::vector<backends::StepReport> report() const override;
  std::vector<std::pair<std::string, std::string>> sources() const override;
  std::shared_ptr<const backends::PreparedCall> prepare(backends::CallForm form) const override;
  void run(const codegen::Bound& bound, Stream stream) const override;
  void run_pointer_arrays(const codegen::BoundPointerArrays& problems,
                          Stream stream) const override;
  std::string explain_pointer_arrays() const override;
  std::vector<std::pair<std::string, std::string>> pointer_array_sources() const override {
    return problems_.sources();
  }
  std::vector<std::string> tune(const codegen::Bound& bound) const override;
  std::vector<backends::MeasuredStep> measure(const codegen::Bound& bound,
                                              const backends::MeasureRules& asked) const override;
  bool keep(const codegen::Bound& bound,
            std::span<const backends::MeasuredStep> steps) const override;
  tune::SizeClass size_class(const codegen::Bound& bound) const override {
    return cuda::size_class(prepared_, bound);
  }
  std::int64_t num_compiled() const override { return jit_->num_compiled(); }
  double compile_seconds() const override { return jit_->compile_seconds(); }
  std::int64_t num_encoded() const override { return num_encoded_; }

  jit::CuContext current_context() const;
  std::uint64_t generation() const { return generation_; }
  // In the current context, by the choices of now; first it measures, where that is asked for.
  std::shared_ptr<const PreparedRun> prepare_run(const backends::CallForm& form,
                                                 const codegen::CallValues& values,
                                                 Stream stream) const;

 private:
  std::shared_ptr<Context> context() const;
  std::shared_ptr<Context> context_here() const;
  void measure_unknown(Context& here, const backends::CallForm& form) const;

  const targets::TargetInfo& target_;
  const targets::DeviceProfile ahead_;  // what kernels are chosen by ahead of all tensors
  std::shared_ptr<jit::Jit> jit_;
  const std::string family_;  // that was named
  const Tune tune_;
  const Prepared prepared_;
  const PointerArrayRunner problems_;
  mutable LateKernels late_;
  mutable std::mutex measuring_;  // held while forms are measured: runs wait for the choice
  mutable std::once_flag driver_once_;
  mutable std::shared_ptr<const jit::Driver> driver_;
  mutable std::mutex contexts_mutex_;
  mutable std::vector<std::shared_ptr<Context>> contexts_;
  mutable std::shared_mutex choices_mutex_;  // held while a run is built, so that choices stay
  mutable std::atomic<std::uint64_t> generation_ = 0;  // of the choices
  mutable std::atomic<std::int64_t> num_encoded_ = 0;
};

// What was prepared for the calls of one form, in each context that they came in.
class CudaCall : public backends::PreparedCall {
 public:
  CudaCall(const CudaExecutable& executable, backends::CallForm form)
      : executable_(executable), form_(std::move(form)) {}

  void run(const codegen::CallValues& values, Stream stream) const override {
    const jit::CuContext current = executable_.current_context();
    std::shared_ptr<const PreparedRun> run = find(current);
    if (run == nullptr) {
      run = executable_.prepare_run(form_, values, stream);
      add(run);
    }
    run->run(values, static_cast<jit::CuStream>(stream));
  }

 private:
  static bool is_in(const PreparedRun& run, jit::CuContext context) {
    return run.context->device().context() == context;
  }

  std::shared_ptr<const PreparedRun> find(jit::CuContext context) const {
    const std::shared_lock lock(mutex_);
    for (const auto& run : runs_) {
      if (is_in(*run, context) && run->generation == executable_.generation()) return run;
    }
    return nullptr;
  }

  void add(const std::shared_ptr<const PreparedRun>& run) const {
    const std::unique_lock lock(mutex_);
    std::erase_if(runs_,
                  [&](const auto& old) { return is_in(*old, run->context->device().context()); });
    runs_.push_back(run);
  }

  const CudaExecutable& executable_;
  const backends::CallForm form_;
  mutable std::shared_mutex mutex_;
  mutable std::vector<std::shared_ptr<const PreparedRun>> runs_;  // one for each context
};

std::vector<backends::StepReport> CudaExecutable::report() const {
  std::vector<backends::StepReport> reports;
  for (const StepKernels& step : prepared_.steps) reports.push_back(step.report);
  return reports;
}

backends::RunPlan CudaExecutable::plan_for(const codegen::Bound& bound) const {
  const std::shared_ptr<Context> here = context_here();
  const ChoiceRules rules =
      here == nullptr ? ChoiceRules{targets::reference_profile(target_)} : here->rules();
  backends::RunPlan run = plan_of_run(prepared_, late_, rules, bound);
  const bool has_product = std::ranges::any_of(run.plan.steps, [](const plan::Step& step) {
    return std::holds_alternative<plan::FusedGemm>(step);
  });
  if (has_product) {
    run.profile =
        targets::describe(rules.device, here == nullptr ? fmt::format("a GPU of {}", target_.name)
                                                        : here->device().info().name);
    if (const std::string unused = targets::unused(target_); !unused.empty()) {
      run.profile += " " + unused;
    }
  }
  return run;
}

std::vector<std::pair<std::string, std::string>> CudaExecutable::sources() const {
  std::vector<std::pair<std::string, std::string>> sources;
  for (NamedSource& each : all_sources(prepared_)) {
    sources.emplace_back(std::move(each.file), std::move(each.source.text));
  }
  return sources;
}

jit::CuContext CudaExecutable::current_context() const {
  std::call_once(driver_once_, [this] {
    std::string why;
    driver_ = jit::Driver::open(&why);
    if (driver_ == nullptr) throw UnavailableError("No GPU to run on. " + why);
  });
  jit::CuContext current = nullptr;
  driver_->check(driver_->api().ctx_get_current(&current), "cuCtxGetCurrent");
  return current != nullptr ? current : context()->device().context();
}

// The context of this thread; a null one becomes the primary context, as in the CUDA runtime.
std::shared_ptr<Context> CudaExecutable::context() const {
  const std::shared_ptr<const Device> device = Device::require();
  const RelaxedCapture relaxed(device->api());  // a first run may be captured: pools are made here
  const std::scoped_lock lock(contexts_mutex_);
  for (const std::shared_ptr<Context>& context : contexts_) {
    if (context->device().context() == device->context()) return context;
  }
  auto fresh = std::make_shared<Context>(device, target_, tune::TuneStore(jit_->cache().folder()),
                                         toolchain_of(*jit_), family_);
  for (const StepKernels& step : prepared_.steps) {
    if (step.kind != StepKind::family) continue;
    const Kernel& kernel = step.kernels.front();
    fresh->count_clusters(kernel.binary, kernel.source.entry);
    break;
  }
  contexts_.push_back(std::move(fresh));
  return contexts_.back();
}

// Null where there is no device that runs this target.
std::shared_ptr<Context> CudaExecutable::context_here() const {
  try {
    if (Device::current() != nullptr) return context();
  } catch (const UnavailableError&) {
  } catch (const DeviceError&) {
  }
  return nullptr;
}

// What fails here leaves the choice to the model; a run says it where it is in its way.
void CudaExecutable::measure_unknown(Context& here, const backends::CallForm& form) const {
  const RelaxedCapture relaxed(here.device().api());
  const std::scoped_lock alone(measuring_);
  try {
    QuickRules rules = quick_rules(tune_, here.profile(), late_, num_threads());
    for (int turn = 0; turn < 2; ++turn) {
      const std::vector<TunedStep> steps = measure_steps(prepared_, late_, here, form, rules);
      if (steps.empty()) return;
      const std::unique_lock lock(choices_mutex_);
      ++generation_;
      if (!keep_measured(prepared_.plan, steps, here.tuned())) return;
      rules.budget_us /= 2;  // what was measured of them together counts, too
    }
  } catch (const InternalError&) {
    throw;
  } catch (const Error&) {
  }
}

void CudaExecutable::prepare_for(const codegen::Bound& bound) const {
  const std::shared_ptr<Context> here = tune_ == Tune::off ? nullptr : context_here();
  if (here != nullptr) measure_unknown(*here, backends::form_of(prepared_.plan, bound));
  plan_for(bound);
}

std::shared_ptr<const PreparedRun> CudaExecutable::prepare_run(const backends::CallForm& form,
                                                               const codegen::CallValues& values,
                                                               Stream stream) const {
  std::shared_ptr<Context> here = context();
  const bool measures = tune_ == Tune::first_use || tune_ == Tune::full;
  if (measures && !is_captured(here->device(), static_cast<jit::CuStream>(stream))) {
    measure_unknown(*here, form);
  } else if (tune_ != Tune::off) {
    const std::scoped_lock wait_for_choice(measuring_);
  }
  const RelaxedCapture relaxed(here->device().api());  // modules, the vendor library's handle
  const std::shared_lock lock(choices_mutex_);
  auto run = std::make_shared<PreparedRun>(
      cuda::prepare_run(prepared_, late_, std::move(here), form, values));
  run->generation = generation_;
  num_encoded_ += run->num_maps;
  return run;
}

std::shared_ptr<const backends::PreparedCall> CudaExecutable::prepare(
    backends::CallForm form) const {
  return std::make_shared<CudaCall>(*this, std::move(form));
}

void CudaExecutable::run(const codegen::Bound& bound, Stream stream) const {
  const std::shared_ptr<Context> here = context();
  const auto queue = static_cast<jit::CuStream>(stream);
  const RelaxedCapture relaxed(here->device().api());
  const std::shared_lock lock(choices_mutex_);
  const Workspace workspace(*here, workspace_bytes(prepared_, late_, here->rules(), bound), queue);
  for (const Action& action : build_run(prepared_, late_, *here, bound, workspace.data())) {
    cuda::run(here->device(), action, queue);
  }
}

void CudaExecutable::run_pointer_arrays(const codegen::BoundPointerArrays& problems,
                                        Stream stream) const {
  if (problems.count == 0) return;
  const auto queue = static_cast<jit::CuStream>(stream);
  const std::shared_ptr<Context> here = context();
  if (!problems_.why_not()) {
    const RelaxedCapture relaxed(here->device().api());  // modules may be loaded
    return problems_.run(*here, problems, queue);
  }
  const HostPointerArrays on_host(here->device(), problems, queue);
  backends::run_one_by_one(*this, on_host.arrays(), DeviceKind::cuda, stream);
}

std::string CudaExecutable::explain_pointer_arrays() const {
  const std::optional<plan::WhyNot>& why = problems_.why_not();
  if (why) return fmt::format("One problem after another: {} ({})", why->sentence, why->code);
  return fmt::format(
      "All problems in one launch of {}, beside one that describes them and one for "
      "those that it cannot address.",
      problems_.family());
}

std::vector<std::string> CudaExecutable::tune(const codegen::Bound& bound) const {
  const std::shared_ptr<Context> here = context();
  std::vector<std::string> lines;
  const std::vector<TunedStep> steps = cuda::tune(prepared_, late_, *here, bound);
  const std::unique_lock lock(choices_mutex_);
  for (const TunedStep& each : steps) {
    here->tuned().add(prepared_.plan, std::get<plan::FusedGemm>(prepared_.plan.steps[each.step]),
                      each.form, each.tuned, each.description);
    lines.push_back(
        fmt::format("{} runs by {}: {}", each.description, each.tuned.choice, each.tuned.measured));
  }
  ++generation_;  // what is prepared goes by the choices of before
  return lines;
}

std::vector<backends::MeasuredStep> CudaExecutable::measure(
    const codegen::Bound& bound, const backends::MeasureRules& asked) const {
  const std::shared_ptr<Context> here = context();
  const std::scoped_lock alone(measuring_);
  QuickRules rules = kAllCandidates;
  rules.most_candidates = asked.most_candidates;
  rules.budget_us = 1e6 * asked.seconds;
  rules.part_of_memory = 0.9;
  rules.again = rules.compares = true;
  std::vector<backends::MeasuredStep> steps;
  for (TunedStep& each :
       measure_steps(prepared_, late_, *here, backends::form_of(prepared_.plan, bound), rules)) {
    tune::Tuned& best = each.tuned;
    backends::MeasuredStep& step = steps.emplace_back(backends::MeasuredStep{
        each.step, 1 + each.form.beside.size(), std::move(each.description), std::move(best.choice),
        std::move(best.measured), std::move(each.dropped)});
    step.us = best.us;
    step.framework_us = best.framework_us;
    step.padded_us = best.padded_us;
    for (auto& [name, us] : each.ways) step.ways.push_back({std::move(name), us});
  }
  return steps;
}

bool CudaExecutable::keep(const codegen::Bound& bound,
                          std::span<const backends::MeasuredStep> steps) const {
  const std::shared_ptr<Context> here = context();
  const std::unique_lock lock(choices_mutex_);
  bool is_kept = true;
  for (const backends::MeasuredStep& each : steps) {
    const auto form =
        form_of_choice(prepared_, {each.step, each.num_steps}, late_, bound, here->profile());
    if (!form) continue;
    const auto& gemm = std::get<plan::FusedGemm>(prepared_.plan.steps[each.step]);
    const tune::Tuned tuned{each.choice, each.measured, each.us, each.framework_us, each.padded_us};
    is_kept &= here->tuned().add(prepared_.plan, gemm, *form, tuned, each.what);
  }
  ++generation_;
  return is_kept;
}

}  // namespace

std::unique_ptr<backends::Executable> prepare(const plan::Plan& plan,
                                              const targets::TargetInfo& target,
                                              const CompileOptions& options) {
  return std::make_unique<CudaExecutable>(plan, target, options);
}

std::string detect() {
  try {
    const std::shared_ptr<const Device> device = Device::current();
    if (device == nullptr) return "";
    const DeviceInfo& info = device->info();
    const targets::TargetInfo* target = targets::target_of_gpu(info.major, info.minor);
    if (target != nullptr) return std::string(target->name);
  } catch (const Error&) {
    // A driver that fails here is no device to compile for.
  }
  return "";
}

}  // namespace epifuse::cuda
