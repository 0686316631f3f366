// Compiles kernels of a family's candidates until those that are chosen compile well.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "codegen/family.h"
#include "jit/jit.h"

namespace epifuse::cuda {

struct Kernel {
  codegen::GemmConfig config;  // of a family's kernel
  codegen::KernelSource source;
  std::shared_ptr<const jit::Binary> binary;
};

// The candidates of one step, and those of them that are compiled.
struct CandidateList {
  std::vector<codegen::GemmConfig>& candidates;
  std::vector<Kernel>& kernels;
  std::function<std::vector<std::size_t>()> choose;  // of `candidates`, as they are by then
  std::function<codegen::KernelSource(const codegen::GemmConfig&)> source;
  std::function<void(const Kernel&)> on_drop = {};  // of a candidate that no other one replaces
};

// Compiles what is chosen of the lists, all at once, until all of it compiles well. One with
// problems (spills, mostly) leaves the candidates: one of fewer registers gets its place where
// there is one, and the list chooses again. `alone`: kernels without another choice, which may have
// problems. `ahead` is compiled beside the first ones and found in memory later. Throws
// CompileError for a kernel of `alone` that the compiler refuses.
void compile_candidates(std::span<const CandidateList> lists, std::span<Kernel* const> alone,
                        std::vector<codegen::KernelSource> ahead, jit::Jit& jit);

}  // namespace epifuse::cuda
