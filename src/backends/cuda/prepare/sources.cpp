#include "backends/cuda/prepare/sources.h"

#include <fmt/format.h>

#include <algorithm>

#include "tune/shortlist.h"

namespace epifuse::cuda {
namespace {

constexpr std::int64_t kUsualSize = 4096;  // as `explain` takes it

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

void add_finalize(const Prepared& prepared, std::size_t i, std::vector<NamedSource>& sources) {
  const std::optional<Finalize>& finalize = prepared.steps[i].finalize;
  if (!finalize) return;
  sources.push_back(
      {fmt::format("{}_{}_finish.cu", prepared.plan.graph.name, i), finalize->kernel.source});
}

Sizes completed(const plan::GemmDesc& gemm, Sizes sizes) {
  std::vector<Dim> dims{gemm.m, gemm.n, gemm.k};
  dims.insert(dims.end(), gemm.batch.begin(), gemm.batch.end());
  if (gemm.is_grouped()) dims.push_back(gemm.num_groups);
  for (const Dim& dim : dims) {
    for (const std::string& symbol : dim.symbols()) sizes.try_emplace(symbol, kUsualSize);
  }
  return sizes;
}

// The kernel of a family's step that its model chooses at these sizes; the first of an empty run.
const Kernel& chosen(const Prepared& prepared, std::size_t i, const Sizes& sizes,
                     const targets::DeviceProfile& device) {
  const StepKernels& step = prepared.steps[i];
  const auto& gemm = std::get<plan::FusedGemm>(prepared.plan.steps[i]);
  const codegen::GemmSizes size = tune::gemm_sizes(gemm.gemm, completed(gemm.gemm, sizes));
  if (size.is_empty()) return step.kernels.front();
  std::vector<codegen::GemmConfig> configs;
  for (const Kernel& kernel : step.kernels) configs.push_back(kernel.config);
  return step.kernels[codegen::choose(*step.family, gemm, configs, size, device)];
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
                                        const targets::DeviceProfile& device) {
  std::vector<NamedSource> sources;
  for (std::size_t i = 0; i < prepared.steps.size(); ++i) {
    const StepKernels& step = prepared.steps[i];
    if (step.kind == StepKind::family) {
      sources.push_back(named(prepared, i, chosen(prepared, i, sizes, device)));
    } else {
      for (const Kernel& kernel : step.kernels) sources.push_back(named(prepared, i, kernel));
    }
    add_finalize(prepared, i, sources);
  }
  return sources;
}

}  // namespace epifuse::cuda
