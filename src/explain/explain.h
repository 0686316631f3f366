// Says what a graph became: which steps, what fused, what not and why, and what it costs.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "backends/backend.h"
#include "plan/plan.h"

namespace epifuse {

// `plan` is the plan as the target runs it, `reports` one per step of it, or none when it is not
// known how the target runs it. Symbols without a value in `sizes` are taken to be 4096. `machine`
// is a row of machines.def; empty picks one that suits the target.
std::string explain_text(const plan::Plan& plan, const std::vector<backends::StepReport>& reports,
                         const Target& target, const Sizes& sizes, std::string_view machine);
std::string explain_json(const plan::Plan& plan, const std::vector<backends::StepReport>& reports,
                         const Target& target, const Sizes& sizes, std::string_view machine);

}  // namespace epifuse
