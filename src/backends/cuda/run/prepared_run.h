// A run of a plan prepared for all calls of one form, in one context.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <variant>
#include <vector>

#include "backends/call_form.h"
#include "backends/cuda/run/run_builder.h"

namespace epifuse::cuda {

// What the launches of a run take from a call: addresses of tensors, behind them the workspace's.
struct PatchedVendor {
  VendorAction action;
  codegen::AddressPlace a, b, d, workspace;
};
struct PatchedClear {
  ClearAction action;
  codegen::AddressPlace data;
};
using PatchedAction = std::variant<PatchedCall, PatchedVendor, PatchedClear>;

struct PreparedRun {
  std::shared_ptr<Context> context;
  std::uint64_t generation = 0;  // of the choices that it goes by
  std::size_t workspace_bytes = 0;
  std::int64_t num_maps = 0;  // tensor maps that were encoded
  std::vector<PatchedAction> actions;

  // Queues everything.
  void run(const codegen::CallValues& values, jit::CuStream stream) const;
};

// Under the choices of `context`. `values` are a first call's.
PreparedRun prepare_run(const Prepared& prepared, LateKernels& late,
                        std::shared_ptr<Context> context, const backends::CallForm& form,
                        const codegen::CallValues& values);

}  // namespace epifuse::cuda
