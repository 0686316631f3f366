// What the steps of a plan move through global memory and multiply, fused and unfused.
#pragma once

#include <string>
#include <vector>

#include "plan/plan.h"

namespace epifuse {

// One tensor that a step reads or writes.
struct Transfer {
  std::string name;
  DType dtype;
  ir::Shape shape;
  std::string_view access;  // "operand", or as in plan::name
  double bytes;
};

struct StepCost {
  std::vector<Transfer> reads, writes;
  double flops = 0;          // of the matrix product; elementwise work hides behind the traffic
  DType dtype = DType::f32;  // of its operands
  double bytes() const;
};

StepCost cost(const plan::Plan& plan, const plan::Step& step, const Sizes& sizes);

// For each step of `plan`, what its operations cost as one step each: the steps of the same graph
// compiled without fusion that compute the same values. A value computed twice counts once.
std::vector<std::vector<StepCost>> unfused_costs(const plan::Plan& plan, const Sizes& sizes);

}  // namespace epifuse
