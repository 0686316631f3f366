// Decides how each step of a plan runs on a CUDA target, and compiles its kernels. Needs no GPU.
#pragma once

#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "backends/backend.h"
#include "backends/cuda/prepare/candidate_compiler.h"
#include "plan/plan.h"

namespace epifuse::cuda {

enum class StepKind : std::uint8_t {
  family,   // a fused kernel of a GEMM family
  vendor,   // a bare product by cuBLASLt
  grouped,  // a bare product of groups on CUDA cores
  tail,     // a tail kernel
};

// The tail that combines the partial results of a step's reductions.
struct Finalize {
  plan::Plan plan;  // its only step
  Kernel kernel;

  const plan::Tail& tail() const { return std::get<plan::Tail>(plan.steps.front()); }
};

// What runs one step: kernels of a family, one of groups or of a tail, none for the vendor's.
struct StepKernels {
  StepKind kind = StepKind::tail;
  const codegen::KernelFamily* family = nullptr;
  codegen::GemmVariant variant;                 // that the kernels are for
  std::vector<codegen::GemmConfig> candidates;  // that the family names and that compile well
  std::vector<codegen::GemmSizes> sizes;        // that the shortlist is made for
  std::size_t most_kernels = 0;                 // of the shortlist
  std::vector<Kernel> kernels;                  // compiled: the shortlist of the candidates
  std::optional<Finalize> finalize;             // of a family's step that reduces
  std::optional<Kernel> transpose;              // of one that reads copies along K
  backends::StepReport report;
};

// Steps of a plan that is somewhere else.
struct PreparedSteps {
  std::vector<plan::Step> steps;
  std::vector<StepKernels> kernels;  // one for each
};

// "FAMILY, ping-pong 128x192, 4 stages": names a candidate in reports and in measured choices.
std::string candidate_name(const StepKernels& step, const codegen::GemmConfig& config);

struct Prepared {
  plan::Plan plan;  // as it runs: steps that no family takes are split
  std::vector<StepKernels> steps;
  // Whether a family was: it takes all that it can, and nothing measured is weighed against it.
  bool is_named = false;
};

// The step as kernels of that family multiply it: its own read copies along K, others what is
// given.
plan::FusedGemm as_multiplied(const Prepared& prepared, std::size_t step,
                              const codegen::KernelFamily& family);

// Steps of `plan` as a plan of their own.
Prepared as_plan(const plan::Plan& plan, PreparedSteps parts);

// Asks the families in order for each FusedGemm; compiles the shortlists of all steps at once and
// drops candidates with problems, the next best taking their place. Throws CompileError for a tail
// that does not compile, UnavailableError when something must be compiled and there is no NVRTC.
// Bare products are the vendor's, unless `fuses` and ours were measured to be faster at such sizes.
// `device` is the one that is chosen for; without one, the target's reference device. `family`: the
// one whose kernels take all steps that they can; empty: the usual ones. Throws ArgumentError where
// none has that name. `num_to_measure`: so many more candidates of each step whose sizes are all
// known are compiled beside the first ones, and the tail of its split: Jit finds them in memory.
Prepared prepare_steps(const plan::Plan& plan, const targets::TargetInfo& target, jit::Jit& jit,
                       bool fuses = true,
                       const std::optional<targets::DeviceProfile>& device = std::nullopt,
                       std::string_view family = "", std::size_t num_to_measure = 0);

// The same without compiling: whole shortlists, of which some kernel may turn out to spill. Needs
// no NVRTC. `copies`: whether operands that lie along M or N may be copied along K.
Prepared prepare_uncompiled(const plan::Plan& plan, const targets::TargetInfo& target, bool fuses,
                            std::string_view family = "", bool copies = true);

// Kernels of a family's step for another variant than the usual one, on tensors of these sizes and
// typical ones. None when no candidate compiles well: `report` then says why.
StepKernels prepare_variant(const plan::Plan& plan, const plan::FusedGemm& step,
                            const StepKernels& usual, const codegen::GemmVariant& variant,
                            const codegen::GemmSizes& sizes, const targets::TargetInfo& target,
                            jit::Jit& jit,
                            const std::optional<targets::DeviceProfile>& device = std::nullopt);

// The vendor GEMM, or a kernel of groups, and the tail that do the work of one fused step of
// `plan`.
PreparedSteps prepare_split(const plan::Plan& plan, const plan::FusedGemm& step,
                            const targets::TargetInfo& target, jit::Jit& jit);

// Kernels of one step as it is, empty where that is not one kernel of a family; it comes back with
// the copies along K that they read. And the tail that puts rows in order, of graph
// (x[S, K], i[T]) -> y[T, K].
std::optional<StepKernels> prepare_one(
    const plan::Plan& plan, plan::FusedGemm& step, const targets::TargetInfo& target, jit::Jit& jit,
    const std::optional<targets::DeviceProfile>& device = std::nullopt,
    std::string_view family = "");
Prepared prepare_row_copy(DType dtype, DType index, const targets::TargetInfo& target,
                          jit::Jit& jit);

// A tail that copies x, rounding to another dtype on the way: loads value 0, stores value 1. And
// one that multiplies value 0 by value 1, both of one shape, and stores the last one as f32.
Prepared prepare_copy(DType from, DType to, std::size_t rank, const targets::TargetInfo& target,
                      jit::Jit& jit);
Prepared prepare_scaled_copy(DType from, std::size_t rank, const targets::TargetInfo& target,
                             jit::Jit& jit);

}  // namespace epifuse::cuda
