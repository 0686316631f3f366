// Products that are worth a kernel of ours with nothing fused into them.
#pragma once

#include <optional>

#include "codegen/gemm_sizes.h"
#include "plan/plan.h"
#include "targets/targets.h"

namespace epifuse {

// Whether the framework's own product is slower than a kernel of ours. `likely`: its sizes, where
// all are known.
bool pays_alone(const plan::GemmDesc& gemm, const std::optional<codegen::GemmSizes>& likely,
                const targets::TargetInfo& target);

}  // namespace epifuse
