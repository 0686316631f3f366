// Decides how each step of a plan runs on a CUDA target, and compiles its kernels. Needs no GPU.
#pragma once

#include <memory>
#include <vector>

#include "backends/backend.h"
#include "codegen/kernel.h"
#include "jit/jit.h"
#include "plan/plan.h"

namespace epifuse::cuda {

enum class StepKind : std::uint8_t {
  family,  // a fused kernel of a GEMM family
  vendor,  // a bare product by cuBLASLt
  tail,    // a tail kernel
};

// What runs one step: a kernel for each config of a family, one for a tail, none for the vendor's.
struct StepKernels {
  StepKind kind = StepKind::tail;
  const codegen::KernelFamily* family = nullptr;
  std::vector<codegen::GemmConfig> configs;
  std::vector<codegen::KernelSource> sources;
  std::vector<std::shared_ptr<const jit::Binary>> binaries;  // one per source
  backends::StepReport report;
};

struct Prepared {
  plan::Plan plan;  // as it runs: steps that no family takes are split
  std::vector<StepKernels> steps;
};

// Asks the families in order for each FusedGemm; compiles all candidates of all steps at once and
// drops those with problems. Throws CompileError for a tail that does not compile, UnavailableError
// when something must be compiled and there is no NVRTC.
Prepared prepare_steps(const plan::Plan& plan, const codegen::TargetInfo& target, jit::Jit& jit);

// The vendor GEMM and the tail that do the work of one fused step, as a plan of its own.
Prepared prepare_split(const plan::Plan& plan, const plan::FusedGemm& step,
                       const codegen::TargetInfo& target, jit::Jit& jit);

// A tail that copies x, rounding to another dtype on the way: loads value 0, stores value 1.
Prepared prepare_copy(DType from, DType to, std::size_t rank, const codegen::TargetInfo& target,
                      jit::Jit& jit);

// Whether all a step does is to store the product.
bool is_bare(const plan::FusedGemm& step);

}  // namespace epifuse::cuda
