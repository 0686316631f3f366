#include "backends/cuda/prepare/candidate_compiler.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

#include "epifuse/error.h"

namespace epifuse::cuda {
namespace {

// Adds what is chosen and is not there yet.
void add_chosen(const CandidateList& list) {
  for (const std::size_t i : list.choose()) {
    const codegen::GemmConfig& config = list.candidates[i];
    const bool there = std::ranges::any_of(
        list.kernels, [&](const Kernel& kernel) { return kernel.config == config; });
    if (!there) list.kernels.push_back({config, list.source(config), nullptr});
  }
}

// One of fewer registers gets the place of the kernel's config; false where there is none.
bool retire(std::vector<codegen::GemmConfig>& candidates, const Kernel& kernel) {
  const auto leaner = codegen::leaner(kernel.config);
  if (leaner) {
    std::ranges::replace(candidates, kernel.config, *leaner);
  } else {
    std::erase(candidates, kernel.config);
  }
  return leaner.has_value();
}

void drop_bad(const CandidateList& list) {
  const auto is_bad = [](const Kernel& kernel) { return !kernel.binary->problems.empty(); };
  for (const Kernel& kernel : list.kernels) {
    if (is_bad(kernel) && !retire(list.candidates, kernel) && list.on_drop) list.on_drop(kernel);
  }
  std::erase_if(list.kernels, is_bad);
}

// A kernel that spills is slow but right; one that was refused is our bug.
void check_alone(const Kernel& kernel) {
  if (!kernel.binary->cubin.empty()) return;
  throw CompileError(fmt::format("a generated kernel does not compile: {}",
                                 fmt::join(kernel.binary->problems, "; ")),
                     kernel.source.text, kernel.binary->log);
}

}  // namespace

void compile_candidates(std::span<const CandidateList> lists, std::span<Kernel* const> alone,
                        std::vector<codegen::KernelSource> ahead, jit::Jit& jit) {
  while (true) {
    std::vector<Kernel*> missing;
    const auto add_missing = [&](Kernel& kernel) {
      if (kernel.binary == nullptr) missing.push_back(&kernel);
    };
    for (const CandidateList& list : lists) {
      add_chosen(list);
      std::ranges::for_each(list.kernels, add_missing);
    }
    for (Kernel* kernel : alone) add_missing(*kernel);
    if (missing.empty()) return;
    std::vector<codegen::KernelSource> sources;
    for (const Kernel* kernel : missing) sources.push_back(kernel->source);
    for (codegen::KernelSource& source : std::exchange(ahead, {})) {
      sources.push_back(std::move(source));
    }
    const auto binaries = jit.get(sources);
    for (std::size_t i = 0; i < missing.size(); ++i) missing[i]->binary = binaries[i];
    std::ranges::for_each(lists, drop_bad);
    for (const Kernel* kernel : alone) check_alone(*kernel);
  }
}

}  // namespace epifuse::cuda
