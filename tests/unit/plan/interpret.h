// Two small interpreters over float64: of a graph, value by value, and of a plan, step by step.
// They share no code but the meaning of an op, so a plan that differs from its graph shows.
#pragma once

#include <vector>

#include "plan/plan.h"

namespace epifuse::test {

using Tensor = std::vector<double>;   // dense, row-major
using Tensors = std::vector<Tensor>;  // by ValueId; of inputs and scalars, else empty

// Every value of the graph, each rounded to its dtype (f32 is kept in double).
Tensors evaluate(const ir::Graph& graph, const Tensors& inputs, const Sizes& sizes);

// What the plan's stores leave in memory. Fails the test when a load varies along a dim that its
// access does not name.
Tensors run(const plan::Plan& plan, const Tensors& inputs, const Sizes& sizes);

// Inputs of the graph, filled from a fixed seed with values of their dtype.
Tensors random_inputs(const ir::Graph& graph, const Sizes& sizes, unsigned seed);

bool same_bits(const Tensor& a, const Tensor& b);  // any two NaNs are the same

}  // namespace epifuse::test
