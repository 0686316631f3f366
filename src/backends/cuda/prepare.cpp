// Decides how each step of a plan runs on a CUDA target, and compiles its kernels.
#include "backends/cuda/prepare.h"

#include <fmt/format.h>

#include <algorithm>

#include "epifuse/error.h"

namespace epifuse::cuda {
namespace {

using codegen::TargetInfo;
using plan::FusedGemm;
using plan::Plan;
using plan::Tail;
using plan::WhyNot;

StepKernels tail_kernels(const Plan& plan, const Tail& tail, const TargetInfo& target) {
  StepKernels step;
  step.kind = StepKind::tail;
  step.sources.push_back(codegen::tail_source(plan, tail, target));
  step.report.how = "tail kernel";
  return step;
}

StepKernels vendor_kernels(std::vector<WhyNot> refusals) {
  StepKernels step;
  step.kind = StepKind::vendor;
  step.report = {"cuBLASLt", std::move(refusals)};
  return step;
}

// The first family that takes the step; without any, the refusals in a report.
StepKernels family_kernels(const Plan& plan, const FusedGemm& gemm, const TargetInfo& target) {
  StepKernels step = vendor_kernels({});
  if (is_bare(gemm)) {
    step.report.why_not.push_back(
        {"bare_product", "nothing is fused into the product, so the vendor's GEMM does it."});
    return step;
  }
  for (const codegen::KernelFamily& family : codegen::all_families()) {
    if (auto no = family.why_not(plan, gemm, target)) {
      step.report.why_not.push_back(*std::move(no));
      continue;
    }
    step.kind = StepKind::family;
    step.family = &family;
    step.configs = family.configs(gemm, target);
    for (const codegen::GemmConfig& config : step.configs) {
      step.sources.push_back(family.source(plan, gemm, config, {}, target));
    }
    break;
  }
  return step;
}

class Preparer {
 public:
  Preparer(const Plan& plan, const TargetInfo& target, jit::Jit& jit)
      : target_(target), jit_(jit), result_{plan, {}} {
    result_.plan.steps.clear();
  }

  void add(const plan::Step& step) {
    if (const auto* tail = std::get_if<Tail>(&step)) {
      push(step, tail_kernels(result_.plan, *tail, target_));
      return;
    }
    const auto& gemm = std::get<FusedGemm>(step);
    StepKernels kernels = family_kernels(result_.plan, gemm, target_);
    if (kernels.kind == StepKind::family) {
      push(step, std::move(kernels));
    } else {
      add_split(gemm, std::move(kernels.report.why_not));
    }
  }

  void add_split(const FusedGemm& gemm, std::vector<WhyNot> refusals) {
    if (is_bare(gemm)) {
      push(gemm, vendor_kernels(std::move(refusals)));
      return;
    }
    plan::Split parts = plan::split(result_.plan, gemm);
    push(std::move(parts.gemm), vendor_kernels(std::move(refusals)));
    if (!parts.tail) return;
    StepKernels tail = tail_kernels(result_.plan, *parts.tail, target_);
    push(*std::move(parts.tail), std::move(tail));
  }

  // Compiles what is not compiled yet. A family's step that keeps no candidate is split.
  Prepared finish() {
    compile();
    if (std::any_of(result_.steps.begin(), result_.steps.end(), lost_all)) {
      Prepared before = std::exchange(result_, {result_.plan, {}});
      result_.plan.steps.clear();
      for (std::size_t i = 0; i < before.steps.size(); ++i) {
        if (lost_all(before.steps[i])) {
          add_split(std::get<FusedGemm>(before.plan.steps[i]),
                    std::move(before.steps[i].report.why_not));
        } else {
          push(std::move(before.plan.steps[i]), std::move(before.steps[i]));
        }
      }
      compile();
    }
    for (StepKernels& step : result_.steps) describe(step);
    return std::move(result_);
  }

 private:
  static bool lost_all(const StepKernels& step) {
    return step.kind == StepKind::family && step.configs.empty();
  }

  void push(plan::Step step, StepKernels kernels) {
    result_.plan.steps.push_back(std::move(step));
    result_.steps.push_back(std::move(kernels));
  }

  void compile() {
    std::vector<codegen::KernelSource> sources;
    for (const StepKernels& step : result_.steps) {
      if (step.binaries.empty()) {
        sources.insert(sources.end(), step.sources.begin(), step.sources.end());
      }
    }
    const auto binaries = jit_.get(sources);
    std::size_t next = 0;
    for (StepKernels& step : result_.steps) {
      if (!step.binaries.empty()) continue;
      for (std::size_t i = 0; i < step.sources.size(); ++i) {
        step.binaries.push_back(binaries[next++]);
      }
      if (step.kind == StepKind::family) drop_bad_candidates(step);
      if (step.kind == StepKind::tail) check_tail(step);
    }
  }

  static void drop_bad_candidates(StepKernels& step) {
    StepKernels kept = step;
    kept.configs.clear();
    kept.sources.clear();
    kept.binaries.clear();
    for (std::size_t i = 0; i < step.configs.size(); ++i) {
      const std::vector<std::string>& problems = step.binaries[i]->problems;
      if (problems.empty()) {
        kept.configs.push_back(step.configs[i]);
        kept.sources.push_back(step.sources[i]);
        kept.binaries.push_back(step.binaries[i]);
      } else {
        kept.report.why_not.push_back(
            {"candidate_dropped",
             fmt::format("{}, {}: {}.", step.family->name, codegen::print(step.configs[i]),
                         fmt::join(problems, "; "))});
      }
    }
    step = std::move(kept);
  }

  // A tail that spills is slow but right; one that was refused is our bug.
  static void check_tail(const StepKernels& step) {
    const jit::Binary& binary = *step.binaries.front();
    if (!binary.cubin.empty()) return;
    throw CompileError(fmt::format("a generated tail kernel does not compile: {}",
                                   fmt::join(binary.problems, "; ")),
                       step.sources.front().text, binary.log);
  }

  static void describe(StepKernels& step) {
    if (step.kind != StepKind::family) return;
    std::vector<std::string> configs;
    for (const codegen::GemmConfig& config : step.configs)
      configs.push_back(codegen::print(config));
    step.report.how = fmt::format("{}, {}", step.family->name, fmt::join(configs, " or "));
  }

  const TargetInfo& target_;
  jit::Jit& jit_;
  Prepared result_;
};

}  // namespace

bool is_bare(const FusedGemm& step) {
  const plan::Epilogue& epilogue = step.epilogue;
  if (epilogue.stores.size() != 1 || !epilogue.loads.empty()) return false;
  const plan::Store& store = epilogue.stores.front();
  // A cast to the dtype that is stored is the store's own rounding.
  return store.kind == plan::StoreKind::tile &&
         std::all_of(epilogue.computes.begin(), epilogue.computes.end(),
                     [&](const plan::Compute& compute) {
                       return compute.op == ir::Op::cast && compute.dtype == store.dtype;
                     });
}

Prepared prepare_steps(const Plan& plan, const TargetInfo& target, jit::Jit& jit) {
  Preparer preparer(plan, target, jit);
  for (const plan::Step& step : plan.steps) preparer.add(step);
  return preparer.finish();
}

Prepared prepare_split(const Plan& plan, const FusedGemm& step, const TargetInfo& target,
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
  return preparer.finish();
}

}  // namespace epifuse::cuda
