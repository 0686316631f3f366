// A point of the benchmark as the kernel family that takes it sees it.
#pragma once

#include <string_view>
#include <variant>
#include <vector>

#include "bench_points.h"
#include "codegen/family.h"
#include "plan/plan.h"
#include "targets/targets.h"

namespace epifuse::cli {

struct PlannedPoint {
  Point point;
  Graph graph;
  plan::Plan plan;  // of one fused product
  const codegen::KernelFamily* family = nullptr;
  codegen::GemmVariant variant = {};
  codegen::GemmSizes sizes = {};  // as the kernel has them

  const plan::FusedGemm& step() const { return std::get<plan::FusedGemm>(plan.steps.front()); }
};

// By the first family that takes the point as one step, or the named one; else why none does.
std::variant<PlannedPoint, plan::WhyNot> plan_point(const Point& point,
                                                    const targets::TargetInfo& target,
                                                    std::string_view family);

// All configs that tensors of the point allow, with the stages that they leave room for.
std::vector<codegen::GemmConfig> configs_of(const PlannedPoint& point,
                                            const targets::TargetInfo& target);

}  // namespace epifuse::cli
