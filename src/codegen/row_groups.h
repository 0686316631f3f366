// Groups of rows, and rows that are looked up, as kernels of products take them.
//
// A row for each group, repeated for the group's rows, is to a tile what a row of each product of a
// batch is: repeat_rows of b[g, n] is row b[group, n], of e[g, 1] the scalar e[group].
#pragma once

#include <optional>

#include "codegen/bound.h"
#include "codegen/epilogue_layout.h"
#include "kernels/abi.h"
#include "plan/plan.h"

namespace epifuse::codegen {

// The step with what is read of each group of rows as of each product of a batch.
plan::FusedGemm by_product(plan::FusedGemm step);
// Why no kernel can take the rows that the epilogue of a step looks up, repeats or puts somewhere.
std::optional<plan::WhyNot> why_not_rows_by_index(const plan::Plan& plan,
                                                  const plan::FusedGemm& step);
// Where a kernel finds the integers that rows and groups go by.
void bind_integers(const plan::Plan& plan, const plan::FusedGemm& step,
                   const EpilogueLayout& layout, const Bound& bound, abi::GemmParams& params);

}  // namespace epifuse::codegen
