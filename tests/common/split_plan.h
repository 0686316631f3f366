// A plan as on a target without a kernel for any of its fused products.
#pragma once

#include <utility>
#include <variant>

#include "plan/plan.h"

namespace epifuse::test {

// The plan with every fused product replaced by its parts.
inline plan::Plan split_products(const plan::Plan& plan) {
  plan::Plan result = plan;
  result.steps.clear();
  for (const plan::Step& step : plan.steps) {
    const auto* fused = std::get_if<plan::FusedGemm>(&step);
    if (!fused) {
      result.steps.push_back(step);
      continue;
    }
    plan::Split parts = plan::split(plan, *fused);
    for (plan::FusedGemm& bare : parts.gemms) result.steps.emplace_back(std::move(bare));
    if (parts.tail) result.steps.emplace_back(std::move(*parts.tail));
  }
  return result;
}

}  // namespace epifuse::test
