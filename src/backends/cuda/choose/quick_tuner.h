// Measures the few best ways to run steps whose choice is not known yet, on memory of its own.
#pragma once

#include <vector>

#include "backends/call_form.h"
#include "backends/cuda/choose/quick_rules.h"
#include "backends/cuda/choose/tuner.h"

namespace epifuse::cuda {

// What was measured for calls of the form, here or meanwhile by another process. A step is left out
// where a choice is known, and where there is none to make. None is measured where tensors take too
// much memory: then the model decides, or with `again` NotEnoughMemory is thrown. Works on a stream
// of its own and waits for no other, so that a capture that goes on elsewhere is not disturbed. Of
// all threads and processes that share the choices' folder one at a time measures.
std::vector<TunedStep> measure_steps(const Prepared& prepared, LateKernels& late, Context& context,
                                     const backends::CallForm& form, const QuickRules& rules);

}  // namespace epifuse::cuda
