// Turns a plan and bound tensors into a list of launches with everything prepared.
#include "backends/cuda/run/run_builder.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <optional>

#include "backends/cuda/run/run_parts.h"
#include "base/check.h"
#include "codegen/grouped.h"
#include "codegen/matrix_view.h"
#include "codegen/tail.h"
#include "epifuse/error.h"
#include "epifuse/tensor.h"
#include "tune/shortlist.h"

namespace epifuse::cuda {
namespace {

using codegen::Bound;
using codegen::BoundTensor;

constexpr std::size_t kAlignment = 256;  // of everything in the workspace

// Stands for memory that is not there: of tensors without elements, and while only measuring.
char* nowhere() { return reinterpret_cast<char*>(kAlignment); }

// Nothing is gained over a framework that has the product and a pass for the rest, too.
std::optional<plan::WhyNot> why_left_unmeasured(const StepChoice& choice) {
  if (!choice.measured.empty()) return std::nullopt;
  return plan::WhyNot{"framework_is_faster",
                      fmt::format("Here the vendor's product and a pass for the rest would run, "
                                  "which the framework has, too: {}",
                                  choice.why_split->sentence)};
}

}  // namespace

std::int64_t count(const std::vector<std::int64_t>& shape) {
  return std::accumulate(shape.begin(), shape.end(), std::int64_t{1}, std::multiplies<>());
}

BoundTensor dense(void* data, const std::vector<std::int64_t>& shape) {
  return {data, {0, shape, TensorView::dense_strides(shape)}};
}

void RunBuilder::stand_in_for_empty(const ir::Graph& graph) {
  const auto stand_in = [&](ir::ValueId id) {
    BoundTensor& tensor = bound_.tensors[static_cast<std::size_t>(id)];
    if (tensor.data == nullptr) tensor.data = nowhere();
  };
  for (std::size_t id = 0; id < graph.nodes.size(); ++id) {
    if (graph.nodes[id].op == ir::Op::input) stand_in(static_cast<ir::ValueId>(id));
  }
  for (const ir::Output& output : graph.outputs) stand_in(output.value);
}

void* RunBuilder::take(std::size_t bytes) {
  void* data = workspace_ + num_bytes_;
  num_bytes_ += (bytes + kAlignment - 1) / kAlignment * kAlignment;
  return data;
}

void RunBuilder::place_temporaries(const plan::Plan& plan) {
  for (ir::ValueId id : plan.temporaries()) place(plan, id);
  backends::resolve_views(plan, bound_);
}

// In the workspace, unless it has memory.
void RunBuilder::place(const plan::Plan& plan, ir::ValueId id) {
  BoundTensor& tensor = bound_.tensors[static_cast<std::size_t>(id)];
  if (tensor.data != nullptr) return;
  const ir::TensorType& type = plan.graph[id].type;
  const std::vector<std::int64_t> shape = ir::eval(type.shape, bound_.sizes);
  tensor = dense(take(static_cast<std::size_t>(count(shape)) * size_bytes(type.dtype)), shape);
}

// Products that the whole plan does not store, and the tail that loads them or columns of them. Of
// the plan's other values nothing is looked at: there may be as many as there are splits.
void RunBuilder::add_split(const plan::Plan& plan, const PreparedSteps& parts) {
  for (const plan::Step& step : parts.steps) {
    if (const auto* gemm = std::get_if<plan::FusedGemm>(&step)) place(plan, gemm->gemm.matmul);
  }
  for (std::size_t i = 0; i < parts.steps.size(); ++i) {
    const plan::Step& step = parts.steps[i];
    if (const auto* tail = std::get_if<plan::Tail>(&step)) {
      for (const plan::Load& load : tail->epilogue.loads) {
        backends::resolve_view(plan.graph, load.value, bound_);
      }
    }
    plan_.plan.steps.push_back(step);
    plan_.how.push_back(parts.kernels[i].report.how);
    plan_.grounds.emplace_back();
    add_alone(plan, step, parts.kernels[i]);
  }
}

void RunBuilder::add_step(const Prepared& prepared, std::size_t index) {
  const plan::Step& step = prepared.plan.steps[index];
  const StepKernels& kernels = prepared.steps[index];
  std::string how = kernels.report.how;
  StepChoice choice;
  if (kernels.kind == StepKind::family) {
    choice = choose_step(prepared, index, late_, bound_, rules_);
    if (choice.why_left) plan_.why_left = choice.why_left;
    if (choice.why_split) {
      if (!plan_.why_left) plan_.why_left = why_left_unmeasured(choice);
      const bool is_bare = plan::is_bare(std::get<plan::FusedGemm>(step));
      if (!is_bare) plan_.splits.push_back(*std::move(choice.why_split));
      add_split(prepared.plan, late_.split(prepared.plan, index));
      if (is_bare) plan_.grounds.back() = grounds(choice);
      return;
    }
    const bool in_order = choice.in_order != nullptr;
    if (in_order && add_in_order(prepared.plan, index, *choice.in_order)) return;
    how = print(choice);
  }
  plan_.plan.steps.push_back(step);
  plan_.how.push_back(std::move(how));
  plan_.grounds.push_back(grounds(choice));
  if (choice.behind_copies) {
    add_behind_copies(prepared, index, choice);
  } else if (kernels.kind == StepKind::family) {
    add_family(prepared, index, choice);
  } else {
    add_alone(prepared.plan, step, kernels);
  }
}

// A step with nothing to choose.
void RunBuilder::add_alone(const plan::Plan& plan, const plan::Step& step,
                           const StepKernels& kernels) {
  plan_.has_other_products = plan_.has_other_products || kernels.kind != StepKind::tail;
  switch (kernels.kind) {
    case StepKind::vendor: {
      const auto& bare = std::get<plan::FusedGemm>(step);
      add_product(on_scaled_copies(plan, bare), allow_tf32_ && !bare.gemm.is_scaled());
      break;
    }
    case StepKind::grouped:
      add_grouped(plan, on_scaled_copies(plan, std::get<plan::FusedGemm>(step)),
                  kernels.kernels.front());
      break;
    case StepKind::tail: add_tail(plan, std::get<plan::Tail>(step), kernels, bound_); break;
    case StepKind::family: throw InternalError("a part of a split step is no family's");
  }
}

void RunBuilder::add_family(const Prepared& prepared, std::size_t index, const StepChoice& choice) {
  const StepKernels& kernels = *choice.kernels;
  const plan::FusedGemm step = as_multiplied(prepared, index, *kernels.family);
  const codegen::GemmSizes sizes = tune::gemm_sizes(step.gemm, bound_.sizes);
  if (sizes.is_empty()) return;
  std::vector<AlignedCopy> copies = choice.k_major_copies;
  add_transposes(prepared.steps[index], copies);
  const codegen::GemmConfig& config = choice.kernel->config;
  codegen::Partials partials;
  if (step.epilogue.reduces()) {
    partials =
        kernels.family->partials(step, config, kernels.variant, bound_.sizes, rules_.device.limits);
  }
  std::vector<BoundTensor> placed = place_partials(step, partials);
  place_scratch(step, kernels, config);
  swap_reductions(step, placed);  // with their results, which `placed` then holds
  if (context_ != nullptr) {
    add_launch(*choice.kernel, kernels.family->launch(prepared.plan, step, config, kernels.variant,
                                                      bound_, rules_.device.limits));
  }
  swap_reductions(step, placed);
  for (AlignedCopy& copy : copies) std::swap(bound_[copy.operand], copy.to);
  if (context_ == nullptr || placed.empty()) return;
  add_finalize(step, *prepared.steps[index].finalize, partials, placed);
}

// What a kernel takes beside its tensors, and the zeros that it starts from.
void RunBuilder::place_scratch(const plan::FusedGemm& step, const StepKernels& kernels,
                               const codegen::GemmConfig& config) {
  if (kernels.family->scratch == nullptr) return;
  const codegen::Scratch scratch =
      kernels.family->scratch(step, config, kernels.variant, bound_.sizes, rules_.device.limits);
  bound_.scratch = scratch.bytes > 0 ? take(scratch.bytes) : nullptr;
  if (scratch.zeros == 0 || context_ == nullptr) return;
  const auto data = reinterpret_cast<jit::CuDevicePtr>(bound_.scratch);
  actions_.emplace_back(ClearAction{data, scratch.zeros, scratch.zeros, 1});
}

std::vector<BoundTensor> RunBuilder::place_partials(const plan::FusedGemm& step,
                                                    const codegen::Partials& partials) {
  std::vector<BoundTensor> placed;
  for (const plan::Store& store : step.epilogue.stores) {
    if (!plan::reduces(store.kind)) continue;
    placed.push_back({take(partials.bytes), partials.layout});
  }
  return placed;
}

// A copy of all that is bound would take longer the more steps there are.
void RunBuilder::swap_reductions(const plan::FusedGemm& step, std::vector<BoundTensor>& tensors) {
  auto tensor = tensors.begin();
  for (const plan::Store& store : step.epilogue.stores) {
    if (!plan::reduces(store.kind)) continue;
    std::swap(bound_.tensors[static_cast<std::size_t>(store.value)], *tensor++);
  }
}

namespace {

// The result of a reduction as a tail over its parts sees it: [batch.., 1, length].
BoundTensor finished(const plan::FusedGemm& step, const plan::Store& store, BoundTensor tensor) {
  if (!plan::reduces_rows(store.kind)) return tensor;
  std::vector<std::int64_t>&shape = tensor.layout.shape, &strides = tensor.layout.strides;
  if (step.gemm.batch.empty()) {
    const auto rows = codegen::as_matrix(tensor, store.dtype);
    EPIFUSE_CHECK(rows.has_value(), "rows that do not step evenly are refused by why_not_bound");
    shape = {rows->rows, 1};
    strides = {rows->row_stride, 1};
  }
  std::swap(shape[shape.size() - 2], shape.back());
  std::swap(strides[shape.size() - 2], strides.back());
  return tensor;
}

}  // namespace

void RunBuilder::add_finalize(const plan::FusedGemm& step, const Finalize& finalize,
                              const codegen::Partials& partials,
                              const std::vector<BoundTensor>& placed) {
  Bound bound;
  const ir::Shape& shape = finalize.tail().shape;
  std::vector<std::int64_t> sizes = partials.layout.shape;
  sizes[sizes.size() - 2] = partials.num_parts;
  for (std::size_t d = 0; d < shape.size(); ++d) bound.sizes[*shape[d].symbol()] = sizes[d];
  auto partial = placed.begin();
  for (const plan::Store& store : step.epilogue.stores) {
    if (!plan::reduces(store.kind)) continue;
    bound.tensors.push_back(*partial++);
    bound.tensors.back().layout.shape = sizes;
    bound.tensors.push_back(
        finished(step, store, bound_.tensors[static_cast<std::size_t>(store.value)]));
  }
  bound.scalars.assign(bound.tensors.size(), 0.0);
  add_launch(finalize.kernel,
             codegen::tail_launch(finalize.plan, finalize.tail(), bound, rules_.device.limits));
}

void RunBuilder::add_tail(const plan::Plan& plan, const plan::Tail& tail,
                          const StepKernels& kernels, const Bound& bound) {
  if (context_ == nullptr) return;
  add_launch(kernels.kernels.front(),
             codegen::tail_launch(plan, tail, bound, rules_.device.limits));
}

void RunBuilder::add_grouped(const plan::Plan& plan, const plan::FusedGemm& step,
                             const Kernel& kernel) {
  if (context_ == nullptr) return;
  add_launch(kernel, codegen::grouped_launch(plan, step, bound_, rules_.device.limits));
}

void RunBuilder::add_launch(const Kernel& kernel, codegen::Launch launch) {
  if (launch.grid == 0) return;
  const jit::CuFunction function =
      context_->modules().get(kernel.binary, kernel.source.entry, launch.smem_bytes);
  actions_.emplace_back(BuiltLaunch{function, std::move(launch)});
}

void RunBuilder::add_copy(const BoundTensor& from, DType from_dtype, const BoundTensor& to,
                          DType to_dtype) {
  const std::vector<std::int64_t>& shape = to.layout.shape;
  const Prepared& copy = late_.copy(from_dtype, to_dtype, shape.size());
  const auto& tail = std::get<plan::Tail>(copy.plan.steps.front());
  Bound bound;
  for (std::size_t d = 0; d < shape.size(); ++d) bound.sizes[*tail.shape[d].symbol()] = shape[d];
  bound.tensors = {from, to};
  bound.scalars.assign(2, 0.0);
  add_tail(copy.plan, tail, copy.steps.front(), bound);
}

std::size_t workspace_bytes(const Prepared& prepared, LateKernels& late, const ChoiceRules& rules,
                            const Bound& bound) {
  return RunBuilder(prepared, late, nullptr, rules, bound, nowhere()).num_bytes();
}

backends::RunPlan plan_of_run(const Prepared& prepared, LateKernels& late, const ChoiceRules& rules,
                              const Bound& bound) {
  backends::RunPlan run = RunBuilder(prepared, late, nullptr, rules, bound, nowhere()).take_plan();
  std::vector<plan::Step> steps = std::move(run.plan.steps);
  run.plan = prepared.plan;
  run.plan.steps = std::move(steps);
  return run;
}

namespace {

// With tensor maps encoded.
std::vector<Action> encoded(const Device& device, std::vector<BuiltAction> actions) {
  std::vector<Action> out;
  for (BuiltAction& action : actions) {
    if (auto* launch = std::get_if<BuiltLaunch>(&action)) {
      out.emplace_back(prepare_call(device, launch->function, std::move(launch->launch)));
    } else if (auto* vendor = std::get_if<VendorAction>(&action)) {
      out.emplace_back(std::move(*vendor));
    } else {
      out.emplace_back(std::get<ClearAction>(action));
    }
  }
  return out;
}

}  // namespace

std::vector<Action> build_run(const Prepared& prepared, LateKernels& late, Context& context,
                              const Bound& bound, char* workspace) {
  RunBuilder builder(prepared, late, &context, context.rules(), bound, workspace);
  return encoded(context.device(), builder.take_actions());
}

std::vector<Action> build_step(const Prepared& prepared, std::size_t step, LateKernels& late,
                               Context& context, const ChoiceRules& rules, const Bound& bound,
                               char* workspace, std::size_t count) {
  RunBuilder builder(prepared, late, &context, rules, bound, workspace);
  return encoded(context.device(), builder.take_steps(step, count));
}

void run(const Device& device, const Action& action, jit::CuStream stream) {
  if (const auto* kernel = std::get_if<KernelCall>(&action)) {
    run(device, *kernel, stream);
  } else if (const auto* vendor = std::get_if<VendorAction>(&action)) {
    vendor->gemm->run(vendor->call, vendor->workspace, stream);
  } else {
    const auto& clear = std::get<ClearAction>(action);
    device.check(device.api().memset_2d_d8_async(clear.data, clear.pitch_bytes, 0,
                                                 clear.width_bytes, clear.num_rows, stream),
                 "cuMemsetD2D8Async");
  }
}

}  // namespace epifuse::cuda
