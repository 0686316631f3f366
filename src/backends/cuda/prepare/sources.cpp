#include "backends/cuda/prepare/sources.h"

#include <fmt/format.h>

#include <optional>

#include "backends/backend.h"
#include "backends/bind.h"
#include "backends/cuda/choose/aligned_copies.h"
#include "backends/cuda/choose/model_choice.h"
#include "backends/cuda/run/run_parts.h"
#include "backends/pointer_arrays.h"
#include "codegen/tail.h"
#include "tune/shortlist.h"

namespace epifuse::cuda {
namespace {

// A config as a part of a file's name: "ping_pong_128x192_4_stages".
std::string file_part(const codegen::GemmConfig& config) {
  std::string part;
  for (const char c : codegen::print(config)) {
    const bool plain = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z');
    if (plain) part += c;
    if (!plain && !part.empty() && part.back() != '_') part += '_';
  }
  return part;
}

NamedSource named(const Prepared& prepared, std::size_t i, const Kernel& kernel) {
  const StepKernels& step = prepared.steps[i];
  const std::string what = step.kind == StepKind::family
                               ? fmt::format("{}_{}", step.family->name, file_part(kernel.config))
                           : step.kind == StepKind::grouped ? "grouped"
                                                            : "tail";
  return {fmt::format("{}_{}_{}.cu", prepared.plan.graph.name, i, what), kernel.source};
}

// What follows the vendor's product.
void add_split(const Prepared& prepared, std::size_t i, const targets::TargetInfo& target,
               std::vector<NamedSource>& sources) {
  const auto& gemm = std::get<plan::FusedGemm>(prepared.plan.steps[i]);
  const plan::Split parts = plan::split(prepared.plan, gemm);
  if (!parts.tail) return;
  sources.push_back({fmt::format("{}_{}_tail.cu", prepared.plan.graph.name, i),
                     codegen::tail_source(prepared.plan, *parts.tail, target)});
}

// What runs before and after the kernel of a family.
void add_beside(const Prepared& prepared, std::size_t i, std::vector<NamedSource>& sources) {
  const StepKernels& step = prepared.steps[i];
  const auto add = [&](std::string_view what, const codegen::KernelSource& source) {
    sources.push_back({fmt::format("{}_{}_{}.cu", prepared.plan.graph.name, i, what), source});
  };
  if (step.transpose) add("transpose", step.transpose->source);
  if (step.finalize) add("finish", step.finalize->kernel.source);
}

// Dense tensors of a run at these sizes, those between its steps too. Symbols without one are 4096.
codegen::Bound tensors_at(const plan::Plan& plan, const Sizes& sizes) {
  codegen::Bound bound = backends::bind_stand_ins(plan, sizes, DeviceKind::cuda);
  for (const ir::ValueId id : plan.temporaries()) {
    codegen::BoundTensor& tensor = bound.tensors[static_cast<std::size_t>(id)];
    if (tensor.data != nullptr) continue;
    tensor = dense(backends::stand_in_address(), ir::eval(plan.graph[id].type.shape, bound.sizes));
  }
  backends::resolve_views(plan, bound);
  return bound;
}

// The kernel of a family's step that its model chooses for these tensors, in their variant: one
// that is compiled ahead, unless another promises clearly more. The first of an empty run; none
// where no kernel can address the tensors.
std::optional<Kernel> chosen(const Prepared& prepared, std::size_t i, const codegen::Bound& given,
                             const targets::TargetInfo& target,
                             const targets::DeviceProfile& device) {
  const StepKernels& step = prepared.steps[i];
  const codegen::KernelFamily& family = *step.family;
  const auto& gemm = std::get<plan::FusedGemm>(prepared.plan.steps[i]);
  const ReadTensors read(gemm, given);
  const codegen::Bound& bound = read.bound();
  if (family.why_not_bound(prepared.plan, gemm, bound)) return std::nullopt;
  codegen::GemmSizes sizes = tune::gemm_sizes(gemm.gemm, bound);
  if (sizes.is_empty()) return step.kernels.front();
  const codegen::GemmVariant variant = family.variant(prepared.plan, gemm, bound);
  if (family.roles(variant).are_exchanged) sizes = codegen::exchanged(sizes);
  const auto kernel_of = [&](const codegen::GemmConfig& config) {
    return Kernel{config, family.source(prepared.plan, gemm, config, variant, target), nullptr};
  };
  if (variant == step.variant) {
    TimeMemo times;
    const TimeMemo::Best known = best_compiled(step, gemm, sizes, times, device);
    const auto better = worth_compiling(step, gemm, sizes, known.us, times, device);
    return better ? kernel_of(step.candidates[better->index]) : step.kernels[known.index];
  }
  const auto candidates = codegen::fitted(family, gemm, step.candidates, variant, target);
  if (candidates.empty()) return std::nullopt;
  return kernel_of(candidates[codegen::choose(family, gemm, candidates, sizes, device)]);
}

}  // namespace

std::vector<NamedSource> all_sources(const Prepared& prepared) {
  std::vector<NamedSource> sources;
  for (std::size_t i = 0; i < prepared.steps.size(); ++i) {
    for (const Kernel& kernel : prepared.steps[i].kernels) {
      sources.push_back(named(prepared, i, kernel));
    }
    add_beside(prepared, i, sources);
  }
  return sources;
}

std::vector<NamedSource> chosen_sources(const Prepared& prepared, const Sizes& sizes,
                                        const targets::TargetInfo& target,
                                        const targets::DeviceProfile& device) {
  const codegen::Bound bound = tensors_at(prepared.plan, sizes);
  std::vector<NamedSource> sources;
  for (std::size_t i = 0; i < prepared.steps.size(); ++i) {
    const StepKernels& step = prepared.steps[i];
    if (step.kind != StepKind::family) {
      for (const Kernel& kernel : step.kernels) sources.push_back(named(prepared, i, kernel));
    } else if (const auto kernel = chosen(prepared, i, bound, target, device)) {
      sources.push_back(named(prepared, i, *kernel));
    } else {
      add_split(prepared, i, target, sources);
      continue;
    }
    add_beside(prepared, i, sources);
  }
  return sources;
}

}  // namespace epifuse::cuda
