// Invariants of plans that tests check beside plan::verify.
#pragma once

#include "plan/plan.h"

namespace epifuse::test {

// verify() holds; every output is stored exactly once, every value that is read is an input or was
// stored before, and (of a plan as made) exactly the values outside of matmul kernels are
// explained.
void check_invariants(const plan::Plan& plan);
void check_left_out(const plan::Plan& plan);

// split_products() of the plan, its products checked to be bare.
plan::Plan split_all(const plan::Plan& plan);

}  // namespace epifuse::test
