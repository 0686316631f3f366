// Every way to run a fused step on given tensors.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "backends/backend.h"
#include "backends/cuda/choose/step_choice.h"

namespace epifuse::cuda {

struct Ways {
  std::size_t step = 0;
  StepChoice usual;                // the choice without any measurement
  std::vector<std::string> names;  // as in tune::Tuned: the usual way, product and tail, the others
  std::vector<std::int64_t> beside = {};  // as tune::StepForm has them
  // From `step` on; of several each name is of one launch for all, or of all one by one.
  std::size_t num_steps() const { return 1 + beside.size(); }
  tune::StepForm form() const;
};

constexpr std::size_t kAllWays = backends::MeasureRules{}.most_candidates;  // no limit

// The candidates of the step's family that compile well, or the `most` of least expected time, but
// none that the model puts far behind the best (few-rows kernels at many rows); a few of another
// family, where rows are misaligned or looked up; the vendor's product with a tail, unless a family
// was named; rows copied first, where rows are looked up; operands copied first, where they are
// misaligned, by the model's kernel and of many ways by a few others too. Empty for a step that has
// no choice on these tensors. Compiles the candidates, unless `compiles` is false: then those ways
// are left out for which something would be compiled.
std::optional<Ways> find_ways(const Prepared& prepared, std::size_t step, LateKernels& late,
                              const codegen::Bound& bound, const targets::DeviceProfile& device,
                              std::size_t most = kAllWays, bool compiles = true);

// Times the best's expected time, a way that is not worth a measurement where so many are.
double hopeless(const targets::DeviceProfile& device, std::size_t most);

// Where a way stands among names; nothing where it does not.
std::optional<std::size_t> place(const std::vector<std::string>& names, std::string_view name);

// The rules with one way that a step must take; `choice` outlives them.
ChoiceRules forced(ChoiceRules rules, const ForcedChoice& choice);

// Of the workspace for the way of any of the steps that needs most.
std::size_t most_workspace(const Prepared& prepared, LateKernels& late, const ChoiceRules& rules,
                           const codegen::Bound& bound, std::span<const Ways> steps);

// "512x768x3072 bf16 bias+silu", "512x768x3072 bf16 bias beside 256 256 columns".
std::string describe(const Prepared& prepared, const Ways& ways);

}  // namespace epifuse::cuda
