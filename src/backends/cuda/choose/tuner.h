// Measures every way to run the fused steps of a plan on given tensors.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "backends/cuda/choose/ways.h"
#include "backends/cuda/driver/context.h"
#include "backends/cuda/prepare/late_kernels.h"
#include "backends/cuda/prepare/prepare.h"

namespace epifuse::cuda {

// The way that a step should run, measured.
struct TunedStep {
  std::size_t step = 0;
  tune::StepForm form;
  tune::Tuned tuned;
  std::string description;                                // "512x768x3072 bf16 bias+silu"
  std::vector<std::pair<std::string, double>> ways = {};  // microseconds of each that was measured
  std::vector<std::string> dropped = {};  // ways whose results were not those of the usual one
};

// What is known of steps while several are measured: what runs one by one goes by it.
class KnownHere {
 public:
  ChoiceRules rules(Context& context) {
    ChoiceRules rules = context.rules();
    rules.tuned = &choices_;
    return rules;
  }
  void keep(const plan::Plan& plan, std::size_t step, const tune::StepForm& form,
            const tune::Tuned& tuned) {
    choices_.keep(plan, std::get<plan::FusedGemm>(plan.steps[step]), form, tuned, "");
  }
  bool has(const plan::Plan& plan, const Ways& ways) {
    const auto& step = std::get<plan::FusedGemm>(plan.steps[ways.step]);
    return choices_.find(plan, step, ways.form()).has_value();
  }

 private:
  TunedChoices choices_{{}, tune::TuneStore({})};  // on no disk
};

// Keeps what was measured where nothing is kept. Whether steps that could be one launch are none:
// then each may have a choice that is not known.
bool keep_measured(const plan::Plan& plan, const std::vector<TunedStep>& steps,
                   TunedChoices& choices);

// Steps that may be one launch behind each of them by itself.
void put_last_what_goes_together(std::vector<Ways>& steps);

// What the choice for a step goes by, or for several that may be one launch; nothing where there is
// none to make.
std::optional<tune::StepForm> form_of_choice(const Prepared& prepared, codegen::StepRange steps,
                                             LateKernels& late, const codegen::Bound& bound,
                                             const targets::DeviceProfile& device);

// Without the vendor's library its product with a tail is no way to run. Steps that one way is left
// of have no choice.
void leave_out_missing_vendor(Context& context, std::vector<Ways>& steps);

// The ways are all candidates of the step's family that compile well, and the vendor's product with
// a tail, unless a family was named. Each is timed with its epilogue, launches interleaved and L2
// flushed, and in sustained blocks; taken is the one that is least behind the best in both. Outputs
// are overwritten. Throws ArgumentError when an output shares memory with an input, which would
// change while it is measured.
std::vector<TunedStep> tune(const Prepared& prepared, LateKernels& late, Context& context,
                            const codegen::Bound& bound);

}  // namespace epifuse::cuda
