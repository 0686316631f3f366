// A bare product of groups, of rows or along K, on any tensors: what runs where no family takes it.
#pragma once

#include "codegen/bound.h"
#include "codegen/launch.h"
#include "targets/targets.h"

namespace epifuse::codegen {

KernelSource grouped_source(const plan::Plan& plan, const plan::FusedGemm& step,
                            const targets::TargetInfo& target);
Launch grouped_launch(const plan::Plan& plan, const plan::FusedGemm& step, const Bound& bound,
                      const targets::DeviceLimits& limits);

}  // namespace epifuse::codegen
