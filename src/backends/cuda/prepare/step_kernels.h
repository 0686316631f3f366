// What may run a step, before anything is compiled.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "backends/cuda/prepare/prepare.h"

namespace epifuse::cuda {

// What is chosen for, and by kernels of which family.
struct Choosing {
  // Throws ArgumentError for a name that no family has. Where a family is named, no measurement is
  // weighed against it. `may_copy`: operands along K, where a family multiplies no others.
  Choosing(const targets::TargetInfo& target, const std::optional<targets::DeviceProfile>& given,
           std::string_view name, bool may_copy)
      : device(given.value_or(targets::reference_profile(target))),
        family(name),
        is_named(!name.empty()),
        copies(may_copy) {
    codegen::families_for(target, name);  // throws
    if (is_named) device.known = nullptr;
  }
  targets::DeviceProfile device;
  std::string family;  // empty: those of the target
  bool is_named;
  bool copies;
};

// The first family that takes the step; of groups of rows, which no vendor multiplies, also one
// that is not the target's usual. Without any, the refusals in a report. Bare products are the
// vendor's, unless `fuses` and ours were measured to be faster, or a family is named. A step comes
// back with the copies along K that its family's kernels read.
StepKernels family_kernels(const plan::Plan& plan, plan::FusedGemm& gemm,
                           const targets::TargetInfo& target, bool fuses, const Choosing& choosing);
// Of a bare product, which no family takes.
StepKernels bare_kernels(const plan::Plan& plan, const plan::FusedGemm& gemm,
                         const targets::TargetInfo& target, std::vector<plan::WhyNot> refusals);
StepKernels tail_kernels(const plan::Plan& plan, const plan::Tail& tail,
                         const targets::TargetInfo& target);

}  // namespace epifuse::cuda
