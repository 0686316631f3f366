// How a fused product runs behind copies of operands whose rows start off 16-byte boundaries.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>

#include "epifuse/program.h"
#include "plan/plan.h"

namespace epifuse::cli {

struct CopiesRun {
  std::string config;         // "ping-pong 128x192, 4 stages, behind copies of misaligned operands"
  double expected_us = 0;     // with the copies
  bool is_chosen = false;     // where nothing was measured
  std::function<void()> run;  // with the copies
};

// Of step 0 of a plan of one product on these tensors, in memory of its own. The tensors and the
// device outlive it. Empty where no operand is misaligned, or none can be copied. Throws
// UnavailableError without a GPU that epifuse has kernels for.
std::optional<CopiesRun> copies_run(const plan::Plan& plan, std::span<const Binding> tensors);

}  // namespace epifuse::cli
