// Decides which values each step of a plan computes.
#pragma once

#include <optional>
#include <vector>

#include "plan/facts.h"
#include "plan/grow.h"
#include "plan/reasons.h"

namespace epifuse::plan {

// What one step computes, before it is written as an epilogue.
struct StepDraft {
  ir::ValueId matmul = -1;          // of a FusedGemm
  std::optional<Gate> gate;         // where it computes two products
  ir::Shape space;                  // the shape it iterates over
  std::vector<ir::ValueId> values;  // in graph order; a value may be computed in several steps
  std::vector<ir::ValueId> stores;  // those of `values` that others read, in graph order

  bool operator==(const StepDraft&) const = default;
};

struct Steps {
  std::vector<StepDraft> steps;  // each after those it reads from
  std::vector<LeftOut> left_out;
};
Steps draft_steps(const Facts& facts, bool fuse);

// The stages, in order.
void grow_gemms(Draft& draft);  // from each matmul, the last one first
void grow_tails(Draft& draft);  // from each value that is in no step yet, the first one first
// Moves elementwise work on operands into the steps that use its result, where that saves traffic:
// computes x in the step instead of loading it. Returns, for each value, the steps that compute it.
std::vector<std::vector<ir::ValueId>> absorb_producers(Draft& draft);
// One reason for each computed value that no matmul's step computes.
std::vector<LeftOut> explain_left_out(const Draft& draft,
                                      const std::vector<std::vector<ir::ValueId>>& hosts,
                                      bool fuse);

}  // namespace epifuse::plan
