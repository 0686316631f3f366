// The facts behind `explain`, before they are written as text or JSON.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "backends/backend.h"
#include "explain/machines.h"
#include "explain/traffic.h"
#include "plan/plan.h"

namespace epifuse {

struct Cost {
  double bytes = 0, seconds = 0;
};

struct StepExplanation {
  std::string what;   // one sentence
  std::string label;  // of the epilogue
  bool is_product = false;
  std::vector<std::string> values;  // that it computes, beside the product itself
  StepCost detail;
  Cost cost, unfused;
  backends::StepReport report;  // empty when it is not known how the target runs the step
};

struct Explanation {
  const plan::Plan& plan;
  const Target& target;
  const Machine& machine;
  Sizes sizes;
  std::vector<std::string> assumed;  // symbols whose size was not given
  std::vector<StepExplanation> steps;
  // Values that could be fused, but that this target computes after their product.
  std::vector<std::string> split_off;
  Cost cost, unfused;
};

constexpr std::int64_t kAssumedSize = 4096;

Explanation make_explanation(const plan::Plan& plan,
                             const std::vector<backends::StepReport>& reports, const Target& target,
                             const Sizes& sizes, std::string_view machine);

}  // namespace epifuse
