// Turns a plan and bound tensors into a list of launches with everything prepared.
#pragma once

#include <memory>
#include <string_view>
#include <variant>
#include <vector>

#include "backends/backend.h"
#include "backends/cuda/choose/step_choice.h"
#include "backends/cuda/driver/context.h"
#include "backends/cuda/prepare/late_kernels.h"
#include "backends/cuda/prepare/prepare.h"

namespace epifuse::cuda {

struct VendorAction {
  const VendorGemm* gemm;  // of the context
  VendorCall call;
  void* workspace;
};

struct ClearAction {  // zeros rows of memory
  jit::CuDevicePtr data;
  std::size_t pitch_bytes, width_bytes, num_rows;
};

using Action = std::variant<KernelCall, VendorAction, ClearAction>;

void run(const Device& device, const Action& action, jit::CuStream stream);

// Bytes of workspace that one run on these tensors takes: temporaries, and what the vendor GEMM
// needs.
std::size_t workspace_bytes(const Prepared& prepared, LateKernels& late, const ChoiceRules& rules,
                            const codegen::Bound& bound);

// The plan with every step whose kernel cannot address these tensors replaced by its split.
backends::RunPlan plan_of_run(const Prepared& prepared, LateKernels& late, const ChoiceRules& rules,
                              const codegen::Bound& bound);

// The launches of one run, in order, with the workspace at `workspace` (256-byte aligned). Steps of
// no elements launch nothing.
std::vector<Action> build_run(const Prepared& prepared, LateKernels& late, Context& context,
                              const codegen::Bound& bound, char* workspace);

// Those of one step of the plan, or of so many from there on, under other rules than the context's.
std::vector<Action> build_step(const Prepared& prepared, std::size_t step, LateKernels& late,
                               Context& context, const ChoiceRules& rules,
                               const codegen::Bound& bound, char* workspace, std::size_t count = 1);

}  // namespace epifuse::cuda
