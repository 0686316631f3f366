#include "backends/cuda/prepare/sources.h"

#include <fmt/format.h>

#include <optional>

#include "backends/backend.h"
#include "backends/bind.h"
#include "backends/cuda/choose/model_choice.h"
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

void add_finalize(const Prepared& prepared, std::size_t i, std::vector<NamedSource>& sources) {
  const std::optional<Finalize>& finalize = prepared.steps[i].finalize;
  if (!finalize) return;
  sources.push_back(
      {fmt::format("{}_{}_finish.cu", prepared.plan.graph.name, i), finalize->kernel.source});
}

// Dense tensors of a run at these sizes, those between its steps too. Symbols without one are 4096.
codegen::Bound tensors_at(const plan::Plan& plan, const Sizes& sizes) {
  codegen::Bound bound = backends::bind_stand_ins(plan, sizes, DeviceKind::cuda);
  for (const ir::ValueId id : plan.temporaries()) {
    codegen::BoundTensor& tensor = bound.tensors[static_cast<std::size_t>(id)];
    if (tensor.data != nullptr) continue;
    const std::vector<std::int64_t> shape = ir::eval(plan.graph[id].type.shape, bound.sizes);
    tensor = {backends::stand_in_address(), {0, shape, TensorView::dense_strides(shape)}};
  }
  backends::resolve_views(plan, bound);
  return bound;
}

// The kernel of a family's step that its model chooses for these tensors, in their variant: one
// that is compiled ahead, unless another promises clearly more. The first of an empty run; none
// where no kernel can address the tensors.
std::optional<Kernel> chosen(const Prepared& prepared, std::size_t i, const codegen::Bound& bound,
                             const targets::TargetInfo& target,
                             const targets::DeviceProfile& device) {
  const StepKernels& step = prepared.steps[i];
  const codegen::KernelFamily& family = *step.family;
  const auto& gemm = std::get<plan::FusedGemm>(prepared.plan.steps[i]);
  if (family.why_not_bound(prepared.plan, gemm, bound)) return std::nullopt;
  codegen::GemmSizes sizes =
      codegen::with_rows(tune::gemm_sizes(gemm.gemm, bound.sizes), gemm.gemm, bound);
  if (sizes.is_empty()) return step.kernels.front();
  const codegen::GemmVariant variant = family.variant(prepared.plan, gemm, bound);
  if (family.roles(variant).are_exchanged) sizes = codegen::exchanged(sizes);
  const bool is_usual = variant == step.variant;
  std::vector<codegen::GemmConfig> candidates, ahead;
  for (const codegen::GemmConfig& config : step.candidates) {
    const auto fitted = is_usual ? config : family.fitted(gemm, config, variant, target);
    if (fitted) candidates.push_back(*fitted);
  }
  if (candidates.empty()) return std::nullopt;
  const auto best = [&](const std::vector<codegen::GemmConfig>& configs) {
    return codegen::choose(family, gemm, configs, sizes, device);
  };
  const codegen::GemmConfig& config = candidates[best(candidates)];
  if (is_usual) {
    for (const Kernel& kernel : step.kernels) ahead.push_back(kernel.config);
    const std::size_t known = best(ahead);
    const double known_us = family.expected_us(gemm, ahead[known], sizes, device);
    if (family.expected_us(gemm, config, sizes, device) > kWorthCompiling * known_us) {
      return step.kernels[known];
    }
  }
  return Kernel{config, family.source(prepared.plan, gemm, config, variant, target), nullptr};
}

}  // namespace

std::vector<NamedSource> all_sources(const Prepared& prepared) {
  std::vector<NamedSource> sources;
  for (std::size_t i = 0; i < prepared.steps.size(); ++i) {
    for (const Kernel& kernel : prepared.steps[i].kernels) {
      sources.push_back(named(prepared, i, kernel));
    }
    add_finalize(prepared, i, sources);
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
    add_finalize(prepared, i, sources);
  }
  return sources;
}

}  // namespace epifuse::cuda
