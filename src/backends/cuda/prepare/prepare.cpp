// Decides how each step of a plan runs on a CUDA target, and compiles its kernels.
#include "backends/cuda/prepare/prepare.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <map>

#include "backends/cuda/choose/model_choice.h"
#include "backends/cuda/choose/time_memo.h"
#include "backends/cuda/prepare/step_kernels.h"
#include "codegen/k_major_copies.h"
#include "codegen/tail.h"
#include "epifuse/error.h"
#include "ir/text.h"
#include "tune/shortlist.h"
#include "tune/unfused.h"

namespace epifuse::cuda {
namespace {

using plan::FusedGemm;
using plan::is_bare;
using plan::Plan;
using plan::Tail;
using plan::WhyNot;
using targets::DeviceProfile;
using targets::TargetInfo;

// Kernels compiled for one step beside the best, while tensors wait.
constexpr std::size_t kMostMoreLate = 1;

class Preparer {
 public:
  Preparer(const Plan& plan, const TargetInfo& target, jit::Jit& jit, bool fuses = true,
           const std::optional<DeviceProfile>& device = std::nullopt, std::string_view family = "",
           bool copies = true)
      : target_(target),
        jit_(jit),
        fuses_(fuses),
        choosing_(target, device, family, copies),
        plan_(plan) {}

  void add(const plan::Step& step) {
    if (const auto* tail = std::get_if<Tail>(&step)) {
      push(step, tail_kernels(plan_, *tail, target_));
      return;
    }
    auto gemm = std::get<FusedGemm>(step);
    StepKernels kernels = family_kernels(plan_, gemm, target_, fuses_, choosing_);
    if (kernels.kind == StepKind::family) {
      push(std::move(gemm), std::move(kernels));
    } else {
      add_split(gemm, std::move(kernels.report.why_not), true);
    }
  }

  void compile_to_measure(std::size_t num_candidates) { num_to_measure_ = num_candidates; }

  // `asks_families`: for the products of groups alone, which no vendor multiplies.
  void add_split(const FusedGemm& gemm, std::vector<WhyNot> refusals, bool asks_families = false) {
    if (is_bare(gemm)) {
      push(gemm, bare_kernels(plan_, gemm, target_, std::move(refusals)));
      return;
    }
    plan::Split parts = plan::split(plan_, gemm);
    for (FusedGemm& bare : parts.gemms) {
      StepKernels kernels = bare_kernels(plan_, bare, target_, std::exchange(refusals, {}));
      if (asks_families && bare.gemm.has_groups()) {
        StepKernels family = family_kernels(plan_, bare, target_, fuses_, choosing_);
        if (family.kind == StepKind::family) {
          std::ranges::move(family.report.why_not, std::back_inserter(kernels.report.why_not));
          family.report.why_not = std::move(kernels.report.why_not);  // of the whole step first
          kernels = std::move(family);
        }
      }
      push(std::move(bare), std::move(kernels));
    }
    if (!parts.tail) return;
    StepKernels tail = tail_kernels(plan_, *parts.tail, target_);
    push(*std::move(parts.tail), std::move(tail));
  }

  // Compiles what is not compiled yet. A family's step that keeps no candidate is split.
  PreparedSteps finish() {
    compile();
    if (std::any_of(result_.kernels.begin(), result_.kernels.end(), lost_all)) {
      PreparedSteps before = std::exchange(result_, {});
      for (std::size_t i = 0; i < before.steps.size(); ++i) {
        if (lost_all(before.kernels[i])) {
          add_split(std::get<FusedGemm>(before.steps[i]),
                    std::move(before.kernels[i].report.why_not));
        } else {
          push(std::move(before.steps[i]), std::move(before.kernels[i]));
        }
      }
      compile();
    }
    return std::move(result_);
  }

  // The same as a plan.
  Prepared finish_plan() { return as_plan_of(finish()); }

  Prepared finish_uncompiled() {
    for (std::size_t i = 0; i < result_.kernels.size(); ++i) {
      StepKernels& step = result_.kernels[i];
      if (step.kind != StepKind::family) continue;
      const auto& gemm = std::get<FusedGemm>(result_.steps[i]);
      for (const std::size_t picked : shortlist(step, gemm)) {
        const codegen::GemmConfig& config = step.candidates[picked];
        step.kernels.push_back(
            {config, step.family->source(plan_, gemm, config, step.variant, target_), nullptr});
      }
    }
    return as_plan_of(std::move(result_));
  }

  // The only step, compiled.
  StepKernels finish_one() {
    compile();
    return std::move(result_.kernels.front());
  }

  void push(plan::Step step, StepKernels kernels) {
    result_.steps.push_back(std::move(step));
    result_.kernels.push_back(std::move(kernels));
  }

 private:
  Prepared as_plan_of(PreparedSteps parts) const {
    Prepared out = as_plan(plan_, std::move(parts));
    out.is_named = choosing_.is_named;
    return out;
  }
  static bool lost_all(const StepKernels& step) {
    return step.kind == StepKind::family && step.candidates.empty();
  }

  // Until every shortlist is compiled: a candidate that is dropped makes room for another one.
  void compile() {
    std::vector<CandidateList> lists;
    std::vector<Kernel*> alone;
    for (std::size_t i = 0; i < result_.kernels.size(); ++i) {
      StepKernels& step = result_.kernels[i];
      if (step.kind == StepKind::family) lists.push_back(list_of(i));
      const bool is_alone = step.kind == StepKind::tail || step.kind == StepKind::grouped;
      if (is_alone) alone.push_back(&step.kernels.front());
      if (step.finalize) alone.push_back(&step.finalize->kernel);
      if (step.transpose) alone.push_back(&*step.transpose);
    }
    compile_candidates(lists, alone, sources_ahead(), jit_);
    for (std::size_t i = 0; i < result_.kernels.size(); ++i) describe(i);
  }

  // Compiled beside the kernels, and found in memory later: tails of steps that the models would
  // split at typical sizes, and what is to be measured.
  std::vector<codegen::KernelSource> sources_ahead() {
    std::vector<codegen::KernelSource> sources;
    if (!std::exchange(is_first_, false)) return sources;
    std::map<std::size_t, bool> splits;  // by class of steps
    for (std::size_t i = 0; i < result_.kernels.size(); ++i) {
      const StepKernels& step = result_.kernels[i];
      if (step.kind != StepKind::family) continue;
      const auto& gemm = std::get<FusedGemm>(result_.steps[i]);
      const auto [splits_it, is_new] = splits.try_emplace(times_.step_class(gemm), false);
      if (is_new) {
        splits_it->second =
            num_to_measure_ > 0 ||
            std::any_of(step.sizes.begin(), step.sizes.end(),
                        [&](const auto& sizes) { return would_split(step, gemm, sizes); });
        add_to_measure(step, gemm, sources);
      }
      if (!splits_it->second) continue;
      const plan::Split parts = plan::split(plan_, gemm);
      if (parts.tail) sources.push_back(codegen::tail_source(plan_, *parts.tail, target_));
    }
    return sources;
  }

  // Of a step of one size: of others the shortlist is as long as what would be measured.
  void add_to_measure(const StepKernels& step, const FusedGemm& gemm,
                      std::vector<codegen::KernelSource>& sources) const {
    if (num_to_measure_ == 0 || step.sizes.size() != 1) return;
    const auto by_time = by_expected_us(step, gemm, step.sizes.front(), choosing_.device);
    for (std::size_t i = 1; i < std::min(by_time.size(), num_to_measure_ + 1); ++i) {
      const codegen::GemmConfig& config = step.candidates[by_time[i].index];
      sources.push_back(step.family->source(plan_, gemm, config, step.variant, target_));
    }
  }

  bool would_split(const StepKernels& step, const FusedGemm& gemm,
                   const codegen::GemmSizes& sizes) {
    const std::optional<double> unfused_us = tune::unfused_us(gemm, sizes, choosing_.device);
    if (!unfused_us) return false;
    const auto is_slower = [&](const codegen::GemmConfig& config) {
      return tune::is_clearly_slower(
          step.family->expected_us(gemm, config, sizes, choosing_.device), *unfused_us);
    };
    return std::ranges::all_of(shortlist(step, gemm),
                               [&](std::size_t i) { return is_slower(step.candidates[i]); }) &&
           std::ranges::all_of(step.kernels,
                               [&](const Kernel& kernel) { return is_slower(kernel.config); });
  }

  // What the model chooses of the candidates.
  std::vector<std::size_t> shortlist(const StepKernels& step, const FusedGemm& gemm) {
    return times_.shortlist(*step.family, gemm, step.candidates, step.sizes, choosing_.device,
                            step.most_kernels);
  }

  CandidateList list_of(std::size_t index) {
    StepKernels& step = result_.kernels[index];
    const auto& gemm = std::get<FusedGemm>(result_.steps[index]);
    const auto source = [&](const codegen::GemmConfig& config) {
      return step.family->source(plan_, gemm, config, step.variant, target_);
    };
    const auto on_drop = [&](const Kernel& kernel) {
      step.report.why_not.push_back(
          {"candidate_dropped",
           fmt::format("{}, {}: {}.", step.family->name, codegen::print(kernel.config),
                       fmt::join(kernel.binary->problems, "; "))});
    };
    const auto choose = [&, this] { return shortlist(step, gemm); };
    return {step.candidates, step.kernels, choose, source, on_drop};
  }

  void describe(std::size_t index) {
    StepKernels& step = result_.kernels[index];
    if (step.kind != StepKind::family || step.kernels.empty()) return;
    std::vector<std::string> configs;
    for (const Kernel& kernel : step.kernels) configs.push_back(codegen::print(kernel.config));
    step.report.how = fmt::format("{}, {}", step.family->name, fmt::join(configs, " or "));
    if (step.kernels.size() != step.candidates.size()) {
      step.report.how += fmt::format(" (shortlist of {} candidates)", step.candidates.size());
    }
    if (step.finalize) step.report.how += "; a tail kernel combines the tiles' reductions";
    if (step.transpose) {
      step.report.how += copied_text(std::get<FusedGemm>(result_.steps[index]).gemm);
    }
  }

  std::string copied_text(const plan::GemmDesc& gemm) const {
    std::vector<std::string_view> names;
    for (const plan::Operand* operand : {&gemm.a, &gemm.b, &gemm.second_b}) {
      if (!operand->k_major_copy) continue;
      const std::string_view name = plan_.graph[operand->value].name;
      if (std::ranges::find(names, name) == names.end()) names.push_back(name);
    }
    return fmt::format("; behind {} along K of {}", names.size() == 1 ? "a copy" : "copies",
                       fmt::join(names, " and "));
  }

  const TargetInfo& target_;
  jit::Jit& jit_;
  bool fuses_;
  const Choosing choosing_;
  const Plan& plan_;  // of which these are steps
  PreparedSteps result_;
  TimeMemo times_;
  std::size_t num_to_measure_ = 0;
  bool is_first_ = true;  // nothing was compiled
};

}  // namespace

Prepared as_plan(const Plan& plan, PreparedSteps parts) {
  return {{plan.graph, plan.numerics, plan.allow_tf32, std::move(parts.steps), plan.left_out,
           plan.limits},
          std::move(parts.kernels)};
}

FusedGemm as_multiplied(const Prepared& prepared, std::size_t step,
                        const codegen::KernelFamily& family) {
  const auto& gemm = std::get<FusedGemm>(prepared.plan.steps[step]);
  const bool is_own = family.name == prepared.steps[step].family->name;
  return is_own ? gemm : codegen::without_k_major_copies(gemm);
}

std::string candidate_name(const StepKernels& step, const codegen::GemmConfig& config) {
  return fmt::format("{}, {}", step.family->name, codegen::print(config));
}

Prepared prepare_steps(const Plan& plan, const TargetInfo& target, jit::Jit& jit, bool fuses,
                       const std::optional<DeviceProfile>& device, std::string_view family,
                       std::size_t num_to_measure) {
  Preparer preparer(plan, target, jit, fuses, device, family);
  preparer.compile_to_measure(num_to_measure);
  for (const plan::Step& step : plan.steps) preparer.add(step);
  return preparer.finish_plan();
}

Prepared prepare_uncompiled(const Plan& plan, const TargetInfo& target, bool fuses,
                            std::string_view family, bool copies) {
  jit::Jit jit(jit::KernelCache({}));  // is asked for nothing
  Preparer preparer(plan, target, jit, fuses, std::nullopt, family, copies);
  for (const plan::Step& step : plan.steps) preparer.add(step);
  return preparer.finish_uncompiled();
}

StepKernels prepare_variant(const Plan& plan, const FusedGemm& step, const StepKernels& usual,
                            const codegen::GemmVariant& variant, const codegen::GemmSizes& sizes,
                            const TargetInfo& target, jit::Jit& jit,
                            const std::optional<DeviceProfile>& device) {
  StepKernels kernels;
  kernels.kind = StepKind::family;
  kernels.family = usual.family;
  kernels.variant = variant;
  kernels.candidates = codegen::fitted(*usual.family, step, usual.candidates, variant, target);
  if (kernels.candidates.empty()) return kernels;
  kernels.sizes = usual.sizes;
  kernels.most_kernels = kMostMoreLate;
  const codegen::GemmConfig best =
      kernels.candidates[codegen::choose(*usual.family, step, kernels.candidates, sizes,
                                         device.value_or(targets::reference_profile(target)))];
  kernels.kernels.push_back(
      {best, usual.family->source(plan, step, best, variant, target), nullptr});
  Preparer preparer(plan, target, jit, true, device);
  preparer.push(step, std::move(kernels));
  return preparer.finish_one();
}

PreparedSteps prepare_split(const Plan& plan, const FusedGemm& step, const TargetInfo& target,
                            jit::Jit& jit) {
  Preparer preparer(plan, target, jit);
  preparer.add_split(step, {});
  return preparer.finish();
}

Prepared prepare_copy(DType from, DType to, std::size_t rank, const TargetInfo& target,
                      jit::Jit& jit) {
  Plan plan;
  plan.graph.name = "copy";
  ir::Shape shape;
  for (std::size_t d = 0; d < rank; ++d) shape.push_back(Dim(fmt::format("D{}", d)));
  ir::Node x, y;
  x.op = ir::Op::input;
  x.name = "x";
  x.type = {from, shape, {}};
  y.op = ir::Op::cast;
  y.name = "y";
  y.args = {0};
  y.type = {to, shape, {}};
  plan.graph.nodes = {x, y};
  plan.graph.outputs = {{"y", 1}};
  Tail tail{shape, {}};
  tail.epilogue.loads = {{"x", 0, from, plan::Access::tile}};
  tail.epilogue.stores = {{"y", 1, to, plan::StoreKind::tile, 0}};
  Preparer preparer(plan, target, jit);
  preparer.add(tail);
  return as_plan(plan, preparer.finish());
}

Prepared prepare_row_copy(DType dtype, DType index, const TargetInfo& target, jit::Jit& jit) {
  const std::string text =
      fmt::format("graph rows(x: {}[S, K], i: {}[T]) {{\n  y = take_rows x, i\n  return y\n}}\n",
                  name(dtype), name(index));
  return prepare_steps(plan::make_plan(ir::parse(text), {}), target, jit);
}

Prepared prepare_scaled_copy(DType from, std::size_t rank, const TargetInfo& target,
                             jit::Jit& jit) {
  ir::Shape shape;
  for (std::size_t d = 0; d < rank; ++d) shape.push_back(Dim(fmt::format("D{}", d)));
  const std::string text = fmt::format(
      "graph scaled(x: {}{}, s: f32{}) {{\n  c = cast x -> f32\n  y = mul c, s\n  return y\n}}\n",
      name(from), ir::print(shape), ir::print(shape));
  return prepare_steps(plan::make_plan(ir::parse(text), {}), target, jit);
}

std::optional<StepKernels> prepare_one(const Plan& plan, FusedGemm& step, const TargetInfo& target,
                                       jit::Jit& jit, const std::optional<DeviceProfile>& device,
                                       std::string_view family) {
  Preparer preparer(plan, target, jit, true, device, family);
  preparer.add(step);
  PreparedSteps parts = preparer.finish();
  const bool is_one = parts.steps.size() == 1 && parts.kernels[0].kind == StepKind::family;
  if (!is_one) return std::nullopt;
  step = std::get<FusedGemm>(std::move(parts.steps[0]));
  return std::move(parts.kernels[0]);
}

}  // namespace epifuse::cuda
